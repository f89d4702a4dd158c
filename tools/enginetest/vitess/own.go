package vitess

import (
	"context"
	"os"
	"testing"
	"time"
)

// patience bounds a start or a failover on a slow machine.
const patience = 5 * time.Minute

// Own starts a cluster for one test, from the programs in VELOCITY_VITESS.
func Own(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	if o.Programs = os.Getenv("VELOCITY_VITESS"); o.Programs == "" {
		tb.Fatal("VELOCITY_VITESS names no folder of programs: run make test-cluster-faults")
	}
	var err error
	if o.Dir, err = os.MkdirTemp("", "velocityd-cluster-"); err != nil { //nolint:usetesting // t.TempDir is closed to the servers' user
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(o.Dir) })
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	c, err := Start(ctx, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Stop)
	return c
}

// PrimaryOf waits until one of the buckets' shards has a primary that can be written to, other than the one named.
func (c *Cluster) PrimaryOf(tb testing.TB, shard, not string) *Tablet {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	primary, err := c.AwaitPrimary(ctx, Buckets, shard, not)
	if err != nil {
		tb.Fatal(err)
	}
	return primary
}
