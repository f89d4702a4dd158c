package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	view "velocityd/cmd/velocityd/backtest"
	"velocityd/cmd/velocityd/replay"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/service/backtest"
)

// The zones of a log, which has none.
const (
	logUsers     = 1
	logAddresses = 2
)

// logZones returns the zone that a log is tested with, and the other one, which blocks nobody.
func (c *backtestCmd) logZones() (tested, other service.Zone) {
	users := service.Zone{ID: logUsers, Description: "users of " + c.SSHD, Keys: service.KeyRule{Kind: service.KeyUsername}}
	addresses := service.Zone{ID: logAddresses, Description: "addresses of " + c.SSHD, Keys: service.KeyRule{Kind: service.KeyIP}}
	tested, other = users, addresses
	if c.By == "address" {
		tested, other = addresses, users
	}
	tested.Rate, tested.Window = 5, time.Minute
	other.Rate, other.Window, other.Mode = 1, time.Second, service.ModeOff
	return tested.WithDefaults(), other.WithDefaults()
}

// ofLog replays the attempts of a log. All of them passed then.
func (c *backtestCmd) ofLog(ctx context.Context, p *shell.Process) (shown view.View, err error) {
	if len(c.Rate) == 0 || len(c.Window)+len(c.Period) == 0 {
		return shown, shell.Usagef("--sshd needs --rate, and --window or --period: a log has no zone to take them from")
	}
	tested, other := c.logZones()
	proposals, err := c.grid().Proposals(tested)
	if err != nil {
		return shown, shell.UsageError{Err: err}
	}
	was := tested
	was.Mode = service.ModeOff
	r, err := backtest.New(backtest.Setup{ZoneID: tested.ID, Proposals: proposals, Past: backtest.Past{Zones: []service.Zone{was, other}}})
	if err != nil {
		return shown, err
	}
	log := replayCmd{File: c.SSHD}
	input, _, latest, err := log.input(p)
	if err != nil {
		return shown, err
	}
	defer input.Close()
	skipped, err := replay.Logins(ctx, input, latest, func(l replay.Login) { addLogin(r, tested, other, l) })
	shown = view.View{Zone: tested, Result: r.Result()}
	shown.Result.IsCut = ctx.Err() != nil
	for _, one := range []struct {
		number int
		text   string
	}{
		{skipped.Timeless, "%d attempts of the log have no time that can be read: they are not replayed."},
		{skipped.Unread, "%d lines of the log look like attempts and could not be read."},
	} {
		if one.number > 0 {
			shown.Result.Assumptions = append(shown.Result.Assumptions, fmt.Sprintf(one.text, one.number))
		}
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		err = fmt.Errorf("back-test %s: %w", c.SSHD, err)
	}
	return shown, err
}

// addLogin replays a login of a log. One whose user or address cannot be a key is left out in that zone.
func addLogin(r *backtest.Replay, tested, other service.Zone, l replay.Login) {
	keys := map[int64]string{logUsers: l.User, logAddresses: l.Address}
	a := backtest.Attempt{At: l.At, Outcome: l.Outcome}
	for _, zone := range []service.Zone{tested, other} {
		key, err := zone.Keys.Normalize(keys[zone.ID])
		bucket := service.Bucket{ZoneID: zone.ID, Key: key}
		if cmp.Or(err, bucket.Validate()) == nil {
			a.Places = append(a.Places, backtest.Place{Bucket: bucket})
		}
	}
	for range l.Times {
		if len(a.Places) > 0 {
			r.Add(a)
		}
	}
}
