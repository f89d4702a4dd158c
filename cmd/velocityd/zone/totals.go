package zone

import (
	"context"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
)

// TotalsFlags say which spans are counted.
type TotalsFlags struct {
	By    string         `env:"-" enum:"hour,day,month" default:"hour" placeholder:"SPAN" help:"Count by hour, day or month, in UTC."`
	Since shell.Duration `env:"-" placeholder:"LENGTH" help:"Begin so long ago: 24h, 7d. Left out: a day for hours, 30 days for days, 366 days for months."`
	Until shell.Duration `env:"-" placeholder:"LENGTH" help:"End so long ago."`
}

// Query returns the question, by the clock of this machine.
func (f TotalsFlags) Query() service.TotalsQuery {
	q := service.TotalsQuery{By: service.Span(f.By)}
	if f.Since > 0 {
		q.Since.Time = time.Now().Add(-time.Duration(f.Since))
	}
	if f.Until > 0 {
		q.Until.Time = time.Now().Add(-time.Duration(f.Until))
	}
	return q
}

type totalsCmd struct {
	ID          int64 `arg:"" help:"The zone's id."`
	TotalsFlags `embed:""`
	JSON        bool `name:"json" env:"VELOCITY_JSON" help:"Print the totals as the HTTP interface gives them."`
	ask.Flags   `embed:""`
}

func (totalsCmd) Help() string {
	return `An attempt is counted once in each bucket that it names. Attempts of now are counted, too. A span is final
when it was counted for the second time, with the outcomes that came late. Final hours say how many buckets were asked
for. The numbers outlive the txns.

Example:

  velocityd zone totals 1 --by day --since 7d`
}

// Run prints the totals of the zone.
func (c *totalsCmd) Run(ctx context.Context, p *shell.Process) error {
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	found, err := store.ZoneTotals(ctx, c.ID, c.Query())
	if err != nil {
		return ask.ExplainNoZone(err)
	}
	return shell.Print(p.Stdout, c.JSON, found)
}
