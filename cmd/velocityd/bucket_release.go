package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/schollz/progressbar/v3"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/service/lockout"
)

type bucketReleaseCmd struct {
	Zone      int64    `arg:"" help:"Zone of the buckets."`
	Keys      []string `arg:"" optional:"" name:"key" help:"Bucket keys, in any spelling that the zone accepts."`
	AllLocked bool     `name:"all-locked" env:"-" help:"Release all buckets of the zone that are locked out now, in place of keys."`
	Reason    string   `env:"-" required:"" placeholder:"TEXT" help:"The reason, for zone_audit."`
	JSON      bool     `name:"json" env:"VELOCITY_JSON" help:"Print each bucket as the HTTP interface gives it."`

	shell.YesFlag `embed:""`
	ask.Flags     `embed:""`
}

func (bucketReleaseCmd) Help() string {
	return `The buckets' txns in the window stop counting. A lockout ends, and the next one has the first length again.
Overrides stay. zone_audit records each release, its author and its reason.

Each bucket is released by itself. If one cannot be, the command goes on with the others, and ends with exit code 1.
With --all-locked it asks first, begins with the newest lockout, and leaves alone those that begin meanwhile.

Examples:

  velocityd bucket release 1 alice --reason 'called us, proved her identity'
  velocityd bucket release 1 alice bob carol --reason 'the mail gateway had their old passwords'
  velocityd bucket release 1 --all-locked --reason 'the mail gateway had all old passwords'`
}

// Run releases the buckets and prints their new state.
func (c *bucketReleaseCmd) Run(ctx context.Context, p *shell.Process) error {
	if err := service.ValidateReason(c.Reason); err != nil {
		return shell.Usagef("--%s", strings.TrimPrefix(err.Error(), service.ErrInvalid.Error()+": "))
	}
	if c.AllLocked == (len(c.Keys) > 0) {
		return shell.Usagef("give keys or --all-locked")
	}
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	r := releasing{cmd: c, p: p, store: store}
	if c.AllLocked {
		err = r.allLocked(ctx)
	} else {
		err = r.named(ctx)
	}
	switch {
	case err != nil:
		return err
	case r.failed > 0:
		return fmt.Errorf("%d of %s of zone %d were not released", r.failed, shell.Counted(r.failed+r.released, "bucket"),
			c.Zone)
	case c.AllLocked:
		fmt.Fprintf(p.Stderr, "released %s\n", shell.Counted(r.released, "bucket"))
	}
	return nil
}

// releasing is a run of bucketReleaseCmd.
type releasing struct {
	cmd              *bucketReleaseCmd
	p                *shell.Process
	store            ask.Endpoint
	released, failed int
}

// named releases the buckets that are named.
func (r *releasing) named(ctx context.Context) error {
	buckets := make([]service.Bucket, len(r.cmd.Keys))
	for i, key := range r.cmd.Keys { // all of them first, so that a slip releases none
		var err error
		if buckets[i], err = (bucketFlags{Zone: r.cmd.Zone, Key: key}).bucket(ctx, r.store); err != nil {
			return err
		}
	}
	for _, bucket := range buckets {
		err := r.one(ctx, bucket)
		if err == nil {
			if err = (bucketFlags{JSON: r.cmd.JSON}).show(ctx, r.p.Stdout, r.store, bucket); err != nil {
				return fmt.Errorf("released %s, and then: %w", shell.Counted(r.released, "bucket"), err)
			}
		}
		if err != nil && (len(buckets) == 1 || ctx.Err() != nil) {
			return err
		}
	}
	return nil
}

// one releases a bucket. It tells of an error, unless the command is interrupted, or it is about all buckets.
func (r *releasing) one(ctx context.Context, bucket service.Bucket) error {
	err := r.store.Release(ctx, bucket, r.p.Principal, r.cmd.Reason)
	if err == nil {
		r.released++
		return nil
	}
	r.failed++
	if len(r.cmd.Keys) != 1 {
		fmt.Fprintf(r.p.Stderr, "%s: %v\n", shell.Printable(bucket.Key), err)
	}
	return err
}

// allLocked releases the buckets that are locked, page by page. It begins with the newest of those that were counted
// before the question: the answer is not about later ones.
func (r *releasing) allLocked(ctx context.Context) error {
	locked, newest := 0, uint64(0)
	if err := r.pages(ctx, 0, func(page lockout.Page) error {
		if locked == 0 && len(page.Lockouts) > 0 {
			newest = page.Lockouts[0].TxnID
		}
		locked += len(page.Lockouts)
		return nil
	}); err != nil || locked == 0 {
		return err
	}
	question := fmt.Sprintf("Release the %s of zone %d?", shell.Counted(locked, "locked bucket"), r.cmd.Zone)
	if err := r.cmd.ConfirmTyped(ctx, r.p, question, strconv.Itoa(locked)); err != nil {
		return err
	}
	progress := shell.NewBar(r.p, "released", int64(locked), progressbar.OptionShowCount())
	defer func() { _ = progress.Finish() }()
	return r.pages(ctx, newest+1, func(page lockout.Page) error {
		for _, l := range page.Lockouts {
			err := r.one(ctx, service.Bucket{ZoneID: r.cmd.Zone, Key: l.Key})
			if ctx.Err() != nil || errors.Is(err, service.ErrForbidden) || errors.Is(err, service.ErrNotFound) {
				return fmt.Errorf("%s were released: %w", shell.Counted(r.released, "bucket"), err)
			}
			_ = progress.Set(r.released + r.failed)
		}
		return nil
	})
}

// pages calls each with the pages of the list of locked buckets, of those that began before a txn, or of all for 0.
func (r *releasing) pages(ctx context.Context, before uint64, each func(lockout.Page) error) error {
	for q := (lockout.Query{ZoneID: r.cmd.Zone, Cursor: before, Limit: lockout.MaxLimit}); ; {
		page, err := r.store.Locked(ctx, q)
		if err != nil {
			return ask.ExplainNoZone(err)
		}
		if err := each(page); err != nil || page.Next == 0 {
			return err
		}
		q.Cursor = page.Next
	}
}
