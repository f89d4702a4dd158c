package main

import (
	"context"

	"velocityd/cmd/velocityd/shell"
	"velocityd/cmd/velocityd/zone"
)

type bucketTotalsCmd struct {
	zone.TotalsFlags `embed:""`
	bucketFlags      `embed:""`
}

func (bucketTotalsCmd) Help() string {
	return `Needs a zone with totals ('velocityd zone set ID --totals'), which counts attempts from then on. Hours are
kept for 35 days, days for 400, and months and the numbers of all time for ever.

Example:

  velocityd bucket totals 1 alice --by day`
}

// Run prints the totals of the bucket.
func (c *bucketTotalsCmd) Run(ctx context.Context, p *shell.Process) error {
	store, bucket, err := c.openBucket(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	found, err := store.BucketTotals(ctx, bucket, c.Query())
	if err != nil {
		return err
	}
	return shell.Print(p.Stdout, c.JSON, found)
}
