//go:build cluster

package vitess

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// started starts a cluster for one test, from the programs in VELOCITY_VITESS.
func started(t *testing.T, o Options) *Cluster {
	t.Helper()
	if o.Programs = os.Getenv("VELOCITY_VITESS"); o.Programs == "" {
		t.Fatal("VELOCITY_VITESS names no folder of programs: run make test-cluster-faults")
	}
	dir, err := os.MkdirTemp("", "velocityd-cluster-") //nolint:usetesting // t.TempDir is closed to the servers' user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	o.Dir = dir
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// awaitPrimary waits until a shard has a primary that serves, other than the one named.
func awaitPrimary(t *testing.T, c *Cluster, shard, not string) *Tablet {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	primary, err := c.AwaitPrimary(ctx, Buckets, shard, not)
	if err != nil {
		t.Fatal(err)
	}
	return primary
}

func TestFaultAMysqldThatIsKilledComesBackWritable(t *testing.T) {
	t.Parallel()
	c := started(t, Options{})
	const shard = "-80"
	before := awaitPrimary(t, c, shard, "")
	for range 3 {
		if err := before.KillMysqld(); err != nil {
			t.Fatal(err)
		}
		if after := awaitPrimary(t, c, shard, ""); after != before {
			t.Fatalf("the primary is %s, want %s: there is no other", after.Alias(), before.Alias())
		}
	}
}

func TestFaultAReplicaTakesThePlaceOfAPrimary(t *testing.T) {
	t.Parallel()
	c := started(t, Options{Replicas: 2, Shards: []string{"-"}})
	first := awaitPrimary(t, c, "-", "")
	if _, err := c.Vtctldclient(t.Context(), "PlannedReparentShard", Buckets+"/-"); err != nil {
		t.Fatal(err)
	}
	second := awaitPrimary(t, c, "-", first.Alias())
	if err := second.LoseMysqld(); err != nil {
		t.Fatal(err)
	}
	awaitPrimary(t, c, "-", second.Alias())
}

func TestFaultShardsCanBeAdded(t *testing.T) {
	t.Parallel()
	c := started(t, Options{})
	if err := c.AddShards(t.Context(), Buckets, "-40", "40-80"); err != nil {
		t.Fatal(err)
	}
	shards, err := c.Vtctldclient(t.Context(), "FindAllShardsInKeyspace", Buckets)
	if err != nil || !strings.Contains(shards, "40-80") {
		t.Errorf("shards are %s, %v", shards, err)
	}
}
