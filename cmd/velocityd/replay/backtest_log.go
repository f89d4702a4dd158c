package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/service/backtest"
)

// The zones of a log, which has none.
const (
	logUsers     = 1
	logAddresses = 2
)

// logZones returns the zone that a log is tested with, and the other one, which blocks nothing.
func (c *BacktestCommand) logZones() (tested, other service.Zone) {
	users := service.Zone{
		ID: logUsers, Description: "users of " + c.SSHD,
		Keys: service.KeyRule{Kind: service.KeyUsername},
	}
	addresses := service.Zone{
		ID: logAddresses, Description: "addresses of " + c.SSHD,
		Keys: service.KeyRule{Kind: service.KeyIP},
	}
	tested, other = users, addresses
	if c.By == "address" {
		tested, other = addresses, users
	}
	tested.Rate, tested.Window = 5, time.Minute
	other.Rate, other.Window, other.Mode = 1, time.Second, service.ModeOff
	return tested.WithDefaults(), other.WithDefaults()
}

// ofLog replays the attempts of a log. All of them passed then.
func (c *BacktestCommand) ofLog(ctx context.Context, p *shell.Process) (result backtest.Result, err error) {
	if len(c.Rate) == 0 || len(c.Window)+len(c.Period) == 0 {
		return result, shell.Usagef("--sshd needs --rate, and --window or --period: a log has no zone to take them from")
	}
	tested, other := c.logZones()
	proposals, err := c.grid().Proposals(tested)
	if err != nil {
		return result, shell.UsageError{Err: err}
	}
	tested.Mode = service.ModeOff
	input, _, latest, err := openLog(p, c.SSHD)
	if err != nil {
		return result, err
	}
	defer input.Close()
	result, err = Run(ctx, input, Options{
		Setup: backtest.Setup{
			ZoneID: tested.ID, Proposals: proposals,
			Past: backtest.Past{Zones: []service.Zone{tested, other}},
		},
		UserZone: logUsers, IPZone: logAddresses, Latest: latest,
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		err = fmt.Errorf("back-test %s: %w", c.SSHD, err)
	}
	return result, err
}
