package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/service/lockout"
)

type bucketLockedCmd struct {
	Zone      int64 `arg:"" help:"Zone whose buckets to list."`
	JSON      bool  `name:"json" env:"VELOCITY_JSON" help:"Print a line of JSON for each bucket."`
	ask.Flags `embed:""`
}

func (bucketLockedCmd) Help() string {
	return `The newest lockout comes first. A zone that does not enforce has none. The txn at the end of a line is the
attempt with which the lockout began: 'velocityd txn explain' says why.

Example:

  velocityd bucket locked 1`
}

// Run lists the buckets.
func (c *bucketLockedCmd) Run(ctx context.Context, p *shell.Process) error {
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	out, n := c.row(p.Stdout), 0
	query := lockout.Query{ZoneID: c.Zone, Limit: lockout.MaxLimit}
	for {
		page, err := store.Locked(ctx, query)
		if err != nil {
			return ask.ExplainNoZone(err)
		}
		for _, l := range page.Lockouts {
			if err := out(page.At.Time, l); err != nil {
				return err
			}
			n++
		}
		if query.Cursor = page.Next; page.Next == 0 {
			break
		}
	}
	if n == 0 && !c.JSON {
		fmt.Fprintf(p.Stdout, "no bucket of zone %d is locked\n", c.Zone)
	}
	return nil
}

// row returns a function that prints a lockout.
func (c *bucketLockedCmd) row(w io.Writer) func(now time.Time, l lockout.Lockout) error {
	if c.JSON {
		out := json.NewEncoder(w)
		return func(_ time.Time, l lockout.Lockout) error { return out.Encode(l) }
	}
	return func(now time.Time, l lockout.Lockout) error {
		_, err := fmt.Fprintf(w, "%s  since %s  until %s (%d s)  by txn %d\n", shell.Printable(l.Key),
			l.Since.UTC().Format(time.RFC3339),
			l.Until.UTC().Format(time.RFC3339), service.WholeSeconds(l.Until.Sub(now)), l.TxnID)
		return err
	}
}
