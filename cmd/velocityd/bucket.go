package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/cmd/velocityd/txn"
	"velocityd/cmd/velocityd/zone"
	"velocityd/service"
)

type bucketCmd struct {
	Peek    bucketPeekCmd    `cmd:"" help:"Show what the next attempt would meet, without making one."`
	Totals  bucketTotalsCmd  `cmd:"" help:"Print how many attempts a bucket had, in all and by hour, day or month."`
	Locked  bucketLockedCmd  `cmd:"" help:"List the buckets of a zone that are locked out, or look for those that are full."`
	Release bucketReleaseCmd `cmd:"" help:"Empty buckets and end their lockouts."`
}

func (bucketCmd) Help() string {
	return `Example:

  velocityd bucket peek 1 alice`
}

// bucketFlags names one bucket.
type bucketFlags struct {
	Zone      int64  `arg:"" help:"Zone of the bucket."`
	Key       string `arg:"" help:"Bucket key, in any spelling that the zone accepts."`
	JSON      bool   `name:"json" env:"VELOCITY_JSON" help:"Print the bucket as the HTTP interface gives it."`
	ask.Flags `embed:""`
}

// openBucket opens the store of the flags and returns the named bucket in it. Unless there is an error, the caller must
// release the store.
func (f bucketFlags) openBucket(ctx context.Context) (store ask.Endpoint, bucket service.Bucket, err error) {
	if store, err = f.Open(ctx); err != nil {
		return store, bucket, err
	}
	if bucket, err = f.bucket(ctx, store); err != nil {
		store.Close()
	}
	return store, bucket, err
}

// bucket returns the named bucket, its key normalised by the rule of its zone.
func (f bucketFlags) bucket(ctx context.Context, store ask.Endpoint) (service.Bucket, error) {
	zone, err := store.Zone(ctx, f.Zone)
	if err != nil {
		return service.Bucket{}, err
	}
	key, err := zone.Keys.Name(f.Key)
	bucket := service.Bucket{ZoneID: f.Zone, Key: key}
	if err == nil {
		err = bucket.Validate()
	}
	if err != nil {
		return bucket, shell.UsageError{Err: err}
	}
	return bucket, nil
}

// show prints the bucket's present state.
func (f bucketFlags) show(ctx context.Context, w io.Writer, store ask.Endpoint, bucket service.Bucket) error {
	peek, err := store.Peek(ctx, bucket)
	if err != nil {
		return err
	}
	if f.JSON {
		return shell.JSON(w, peek)
	}
	printPeek(w, peek)
	return nil
}

type bucketPeekCmd struct {
	bucketFlags `embed:""`
}

func (bucketPeekCmd) Help() string {
	return `Records nothing, counts nothing and waits for no lock. A key that was never used looks like one that has been
idle for long.`
}

// Run prints the bucket.
func (c *bucketPeekCmd) Run(ctx context.Context, p *shell.Process) error {
	store, bucket, err := c.openBucket(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	return c.show(ctx, p.Stdout, store, bucket)
}

func printPeek(w io.Writer, peek service.Peek) {
	fmt.Fprintf(w, "zone %d (%s), %s: ", peek.Bucket.ZoneID, peek.Mode, shell.Printable(peek.Bucket.Key))
	if peek.Unmetered {
		fmt.Fprintf(w, "%s\n", unmetered(peek.Reason))
	} else {
		fmt.Fprintf(w, "%d of %d left %s\n  velocity      %d\n", peek.Remaining, peek.Rate,
			spanOf(peek.Window.Duration, peek.ResetAfter.Duration), peek.Velocity)
	}
	fmt.Fprintf(w, "  retry after   %d s\n", service.WholeSeconds(peek.RetryAfter.Duration))
	if peek.Reason != "" {
		fmt.Fprintf(w, "  reason        %s\n", peek.Reason)
	}
	if !peek.LockedUntil.IsZero() {
		fmt.Fprintf(w, "  locked until  %s\n", peek.LockedUntil.UTC().Format(time.RFC3339))
	}
	if o := peek.Override; o != nil {
		fmt.Fprintf(w, "  override      %s\n", zone.OverrideText(*o, peek.At.Time))
	}
	for i, t := range peek.Txns {
		title := ""
		if i == 0 {
			title = "newest txns"
		}
		fmt.Fprintf(w, "  %-12s  %d  %s  %s\n", title, t.ID, t.CreatedAt.UTC().Format(time.RFC3339), txn.Describe(t))
	}
}
