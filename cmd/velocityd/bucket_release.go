package main

import (
	"context"
	"fmt"
	"strings"

	"velocityd/service"
)

type bucketReleaseCmd struct {
	Zone          int64    `arg:"" help:"Zone of the buckets."`
	Keys          []string `arg:"" name:"key" help:"Bucket keys, in any spelling that the zone accepts."`
	Reason        string   `env:"-" required:"" placeholder:"TEXT" help:"The reason, for zone_audit."`
	JSON          bool     `name:"json" env:"VELOCITY_JSON" help:"Print each bucket as the HTTP interface gives it."`
	endpointFlags `embed:""`
}

// Help is the longer explanation of the command.
func (bucketReleaseCmd) Help() string {
	return `The buckets' txns in the window stop counting. A lockout ends, and the next one has the first length again. Overrides stay. zone_audit records each release, who did it and why.

Each bucket is released by itself. If one cannot be, the command goes on with the others, and ends with exit code 1.

Examples:

  velocityd bucket release 1 alice --reason 'called us, proved who she is'
  velocityd bucket release 1 alice bob carol --reason 'the mail gateway had their old passwords'`
}

// Run releases the buckets and prints their new state.
func (c *bucketReleaseCmd) Run(ctx context.Context, p *process) error {
	if err := service.ValidateReason(c.Reason); err != nil {
		return usagef("--%s", strings.TrimPrefix(err.Error(), service.ErrInvalid.Error()+": "))
	}
	store, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer store.release()
	buckets := make([]service.Bucket, len(c.Keys))
	for i, key := range c.Keys { // all of them first, so that a slip releases none
		if buckets[i], err = (bucketFlags{Zone: c.Zone, Key: key}).bucket(ctx, store); err != nil {
			return err
		}
	}
	failed := 0
	for _, bucket := range buckets {
		err := store.Release(ctx, bucket, p.principal, c.Reason)
		if err == nil {
			err = bucketFlags{JSON: c.JSON}.show(ctx, p.stdout, store, bucket)
		}
		switch {
		case err == nil:
		case len(buckets) == 1 || ctx.Err() != nil:
			return err
		default:
			failed++
			fmt.Fprintf(p.stderr, "%s: %v\n", printable(bucket.Key), err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %s of zone %d were not released", failed, counted(len(buckets), "bucket"), c.Zone)
	}
	return nil
}
