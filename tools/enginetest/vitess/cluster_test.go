//go:build cluster

package vitess

import (
	"strings"
	"testing"
)

func TestFaultKilledMysqldComesBackWritable(t *testing.T) {
	t.Parallel()
	c := Own(t, Options{})
	const shard = "-80"
	before := c.PrimaryOf(t, shard, "")
	for range 3 {
		if err := before.KillMysqld(); err != nil {
			t.Fatal(err)
		}
		if after := c.PrimaryOf(t, shard, ""); after != before {
			t.Fatalf("the primary is %s, want %s: there is no other", after.Alias(), before.Alias())
		}
	}
}

func TestFaultReplicaTakesPlaceOfPrimary(t *testing.T) {
	t.Parallel()
	c := Own(t, Options{Replicas: 2, Shards: []string{"-"}})
	first := c.PrimaryOf(t, "-", "")
	if _, err := c.Vtctldclient(t.Context(), "PlannedReparentShard", Buckets+"/-"); err != nil {
		t.Fatal(err)
	}
	second := c.PrimaryOf(t, "-", first.Alias())
	if err := second.LoseMysqld(); err != nil {
		t.Fatal(err)
	}
	c.PrimaryOf(t, "-", second.Alias())
}

func TestFaultShardsCanBeAdded(t *testing.T) {
	t.Parallel()
	c := Own(t, Options{})
	if err := c.AddShards(t.Context(), Buckets, "-40", "40-80"); err != nil {
		t.Fatal(err)
	}
	shards, err := c.Vtctldclient(t.Context(), "FindAllShardsInKeyspace", Buckets)
	if err != nil || !strings.Contains(shards, "40-80") {
		t.Errorf("shards are %s, %v", shards, err)
	}
}
