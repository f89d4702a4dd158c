//go:build cluster

package db

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"velocityd/internal/engine"
	"velocityd/migrations"
	"velocityd/tools/enginetest"
	"velocityd/tools/enginetest/vitess"
)

// The probe asks every shard, and the inspection names them and finds no statement that goes to
// all of them.
func TestClusterProbeSeesAllShards(t *testing.T) {
	t.Parallel()
	p := probe(t, clusterDSN(t))
	// The probe waits for a shard for some hundred milliseconds, which a busy machine may need.
	enginetest.Eventually(t, "a whole cluster is ready", func() bool { return ready(p) == nil && len(p.Lost()) == 0 })
	found, err := p.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if found.Engine == engine.Vitess && len(found.Shards) < 2 {
		t.Errorf("the shards are %+v, want two or more", found.Shards)
	}
	for _, shard := range found.Shards {
		if !shard.IsServing {
			t.Errorf("shard %s serves not", shard.Name)
		}
		enginetest.Eventually(t, "shard "+shard.Name+" alone decides", func() bool {
			return p.tryShard(t.Context(), shard.Name, true) == nil
		})
	}
	for _, plan := range found.Plans {
		if plan.Err != nil || plan.Index != plan.Want {
			t.Errorf("%+v", plan)
		}
	}
}

// The names and sequences that vtgate must know to decide checks. The tests of this package that
// are parallel begin after this one, and find all of it.
//
//nolint:paralleltest // it takes tables away from other tests
func TestClusterProbeSeesWhatVtgateIsNotTold(t *testing.T) {
	pool := overCluster(t)
	p := probe(t, clusterDSN(t))
	restore := func() {
		if _, err := migrations.Up(context.Background(), migrations.Vitess, clusterDSN(t)); err != nil {
			t.Error(err)
		}
		enginetest.Eventually(t, "vtgate has been told all of it", func() bool { return ready(p) == nil })
	}
	for untold, reason := range map[string]string{
		"ALTER VSCHEMA ON velocityd_buckets.zone_txn DROP AUTO_INCREMENT":        "the ids of zone_txn come from a sequence",
		"ALTER VSCHEMA ON velocityd_buckets.zone_attempt DROP VINDEX xxhash":     "table zone_attempt is missing",
		"ALTER VSCHEMA ON velocityd_buckets.zone_bucket_lock DROP VINDEX xxhash": "table zone_bucket_lock is missing",
	} {
		enginetest.Exec(t, pool, untold)
		enginetest.Eventually(t, untold+" is not ready", func() bool {
			err := ready(p)
			t.Logf("%s: %v (%v)", untold, err, errors.Unwrap(err))
			return err != nil && strings.Contains(err.Error(), reason)
		})
		restore()
	}
}

func TestClusterProbeOfShardedKeyspaceSuggestsUnshardedOne(t *testing.T) {
	t.Parallel()
	p := probe(t, clusterDSN(t)+engine.BucketsSuffix)
	wantUnready(t, "the DSN names the buckets", ready(p), "name the unsharded one")
}

// With one of two shards an instance is ready, and names the other. With none of them it is not.
func TestFaultProbeNamesLostShards(t *testing.T) {
	c := ownCluster(t, vitess.Options{})
	p := probe(t, c.DSN())
	await := func(what string, isReady bool, lost ...string) {
		t.Helper()
		var last error
		defer func() { t.Logf("%s: lost %q, %v", what, p.Lost(), last) }()
		enginetest.Eventually(t, what, func() bool {
			last = ready(p)
			return (last == nil) == isReady && slices.Equal(p.Lost(), lost)
		})
	}
	await("all shards work", true)
	low, high := c.PrimaryOf(t, "-80", ""), c.PrimaryOf(t, "80-", "")
	for _, step := range []struct {
		what    string
		tablet  *vitess.Tablet
		isReady bool
		lost    []string
	}{
		{"one shard is lost", low, true, []string{"-80"}},
		{"the other is lost, too", high, false, []string{"-80", "80-"}},
	} {
		if err := step.tablet.LoseMysqld(); err != nil {
			t.Fatal(err)
		}
		await(step.what, step.isReady, step.lost...)
	}
	high.ReturnMysqld()
	await("the other is back", true, "-80")
	low.ReturnMysqld()
	await("both are back", true)
}
