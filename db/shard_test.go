package db

import (
	"slices"
	"testing"

	"velocityd/db/engine"
	"velocityd/db/session"
	"velocityd/service"
)

// twoShards is the map of the two shards that tests have.
func twoShards() *session.ShardMap {
	m, _ := session.NewShardMap([]string{"-80", "80-"})
	return m
}

func TestLockOrderIsByShardFirst(t *testing.T) {
	t.Parallel()
	m := twoShards()
	shards := &session.Shards{}
	shards.Current.Store(m)
	conn := &session.Conn{Engine: engine.Vitess, Shards: shards}
	var checks []service.Check
	for zoneID := range int64(3) {
		for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
			checks = append(checks, service.Check{Buckets: []service.Bucket{{ZoneID: zoneID + 1, Key: key}}})
		}
	}
	b := newBatch(newHints(seenPlaces), conn, service.Call{Checks: checks})
	if !slices.Equal(b.zoneIDs, []int64{1, 2, 3}) {
		t.Errorf("zones are %v", b.zoneIDs)
	}
	last, parts := 0, 0
	for part := range b.parts(b.buckets) {
		parts++
		for _, bucket := range part {
			if bucket.ZoneID != part[0].ZoneID || m.Of(bucket) != m.Of(part[0]) {
				t.Errorf("a part names %v and %v", part[0], bucket)
			}
		}
		if shard := m.Of(part[0]); shard < last {
			t.Errorf("shard %d comes after %d", shard, last)
		} else {
			last = shard
		}
	}
	if parts != 6 {
		t.Errorf("got %d parts, want one for each of 3 zones on 2 shards", parts)
	}
}
