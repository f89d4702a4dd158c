//go:build cluster

package db

import (
	"testing"
	"time"
)

// The proof asks every shard, and the inspection names them and finds no statement that goes to
// all of them.
func TestClusterProbeSeesAllShards(t *testing.T) {
	t.Parallel()
	p, err := OpenProbe(Options{DSN: clusterDSN(t), connectTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	if err := proved(p); err != nil || len(p.Lost()) != 0 {
		t.Fatalf("a whole cluster is not ready: %v, lost %q", err, p.Lost())
	}
	found, err := p.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if found.Engine == EngineVitess && len(found.Shards) < 2 {
		t.Errorf("the shards are %+v, want two or more", found.Shards)
	}
	for _, shard := range found.Shards {
		if !shard.IsServing {
			t.Errorf("shard %s serves not", shard.Name)
		}
		if err := p.proveShard(t.Context(), p.engines.shards.keyspace, shard.Name, true); err != nil {
			t.Errorf("shard %s alone: %v", shard.Name, err)
		}
	}
	for _, plan := range found.Plans {
		if plan.Err != nil || plan.Index != plan.Want {
			t.Errorf("%+v", plan)
		}
	}
}
