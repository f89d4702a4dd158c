//go:build cluster

package db

import (
	"os"
	"testing"
	"time"

	"velocityd/db/dbtest"
)

// The proof asks every shard, and the inspection names them and finds no statement that goes to
// all of them.
func TestClusterProbeSeesAllShards(t *testing.T) {
	t.Parallel()
	dsn := os.Getenv("VELOCITY_CLUSTER_DSN")
	if dsn == "" {
		t.Skip("VELOCITY_CLUSTER_DSN names no cluster")
	}
	p, err := OpenProbe(Options{DSN: dsn, connectTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	// The probe waits for a shard for some hundred milliseconds, which a busy machine may need.
	dbtest.Eventually(t, "a whole cluster is ready", func() bool { return proved(p) == nil && len(p.Lost()) == 0 })
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
		dbtest.Eventually(t, "shard "+shard.Name+" alone decides", func() bool {
			return p.proveShard(t.Context(), p.keyspace+bucketsKeyspace, shard.Name, true) == nil
		})
	}
	for _, plan := range found.Plans {
		if plan.Err != nil || plan.Index != plan.Want {
			t.Errorf("%+v", plan)
		}
	}
}
