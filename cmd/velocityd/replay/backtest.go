package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/service/backtest"
)

// BacktestCommand decides recorded attempts under other limits.
type BacktestCommand struct {
	Zone              int64            `env:"-" placeholder:"ZONE" help:"Zone to test. With --sshd it is not needed."`
	Rate              []int            `env:"-" placeholder:"N" help:"Rates to try. Left out: the zone's."`
	Window            []shell.Duration `env:"-" placeholder:"TIME" help:"Sliding windows to try. Left out, with --period: the zone's window or period."`
	Period            []service.Period `env:"-" placeholder:"PERIOD" help:"Periods of the calendar to try: second, minute, hour, day, week, month."`
	Lockout           []shell.Duration `env:"-" placeholder:"TIME" help:"Lockouts to try; 0 is none. Left out: the zone's."`
	Counts            []service.Counts `env:"-" placeholder:"KIND" help:"Kinds of counting to try: attempts, failures. Left out: the zone's."`
	Since             string           `env:"-" default:"7d" placeholder:"WHEN" help:"Begin: a length before now (2h, 7d), a date (2026-12-31, its first instant in UTC), or a time (2026-12-31T23:59:59Z)."`
	Until             string           `env:"-" placeholder:"WHEN" help:"End, likewise. Left out: now."`
	MostRows          int              `name:"most-rows" env:"-" default:"20000000" placeholder:"N" help:"How many txns to read, at most, of all zones."`
	SSHD              string           `name:"sshd" env:"-" placeholder:"FILE" help:"Take the attempts from this log of sshd, in place of a database; - reads standard input. --since and --until do not matter."`
	By                string           `env:"-" enum:"user,address" default:"user" help:"With --sshd: user or address, which the limit is for."`
	JSON              bool             `name:"json" env:"VELOCITY_JSON" help:"Print the result as the HTTP interface gives it."`
	ask.DatabaseFlags `embed:""`
}

func (BacktestCommand) Help() string {
	return `Replays the recorded attempts in their order and at their times, and decides each of them by the same rule as
the service, under the settings as they were and under each proposal. Every rate is tried with every window, lockout
and kind of counting, up to 31 together, in one pass. All buckets of a check are decided together; the other zones
keep the settings that they had. A proposal is enforced, also in a zone that only watches.

For each proposal it shows the attempts that would have been blocked, the failures among them, the people hurt (those
with a success that would have been blocked), and some answers that would have been others. The distribution of
attempts shows how many of them buckets make in a window, and where each rate cuts it. The rate that is proposed lets
99.9 % of the bursts with a success pass as they were. Outcomes must have been reported for that.

People who are blocked behave otherwise than the record tells: the result says what it assumes. Changes nothing.
Ctrl-C prints the result of the attempts until then. The account must be able to read zone_audit for the settings as
they were: those of the schema owner, of the service and of 'velocityd migrate roles --dba' are. Other accounts get a
result by the settings of now.

Examples:

  velocityd backtest --zone 1 --rate 3,5,10 --window 60,300 --since 7d
  velocityd backtest --zone 1 --counts failures --lockout 0,15m
  velocityd backtest --sshd /var/log/auth.log --rate 3,5,10 --window 1m,10m --by address`
}

// grid returns the proposals that the flags name.
func (c *BacktestCommand) grid() backtest.Grid {
	lengths := func(flags []shell.Duration) (list []service.Duration) {
		for _, f := range flags {
			list = append(list, service.Lasting(time.Duration(f)))
		}
		return list
	}
	return backtest.Grid{
		Rates: c.Rate, Windows: lengths(c.Window), Periods: c.Period, Lockouts: lengths(c.Lockout),
		Counts: c.Counts,
	}
}

// Run makes the back-test and prints it. If it is interrupted, it prints the result so far.
func (c *BacktestCommand) Run(ctx context.Context, p *shell.Process) error {
	if c.SSHD == "" && c.Zone == 0 {
		return shell.Usagef("name --zone, or a log with --sshd")
	}
	var result backtest.Result
	var err error
	if c.SSHD != "" {
		result, err = c.ofLog(ctx, p)
	} else {
		result, err = c.ofDatabase(ctx, p)
	}
	switch {
	case err != nil && ctx.Err() == nil:
		return err
	case err != nil && result.Attempts == 0:
		return errors.New("interrupted: no attempt was replayed yet")
	}
	if err != nil {
		err = fmt.Errorf("interrupted: the result is that of the first %s", shell.Counted(int(result.Attempts), "attempt"))
	}
	return errors.Join(err, shell.Print(p.Stdout, c.JSON, result))
}

// ofDatabase replays the attempts of a database.
func (c *BacktestCommand) ofDatabase(ctx context.Context, p *shell.Process) (result backtest.Result, err error) {
	query := backtest.Query{ZoneID: c.Zone, Grid: c.grid(), MostRows: c.MostRows}
	query.Since.Time, query.Until.Time, err = shell.ParseInterval(c.Since, cmp.Or(c.Until, "0s"), time.Now())
	if err != nil {
		return result, err
	}
	if err := query.Validate(); err != nil {
		return result, shell.UsageError{Err: err}
	}
	store, err := c.Open(ctx)
	if err != nil {
		return result, err
	}
	defer store.Close()
	bar := shell.NewBar(p, "back-test", barLength)
	result, err = backtest.Run(ctx, store.Replays(), query, func(at backtest.Progress) {
		bar.Describe(fmt.Sprintf("%d txns, at %s", at.Rows, at.At.UTC().Format(time.DateTime)))
		_ = bar.Set64(int64(barLength * float64(at.At.Sub(at.Since)) / float64(at.Until.Sub(at.Since))))
	})
	_ = bar.Finish()
	if errors.Is(err, service.ErrInvalid) {
		err = shell.UsageError{Err: err}
	}
	return result, ask.ExplainNoZone(err)
}

// barLength is how long the progress bar is.
const barLength = 1000
