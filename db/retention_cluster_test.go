//go:build cluster

package db

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/retention"
	"velocityd/service"
)

// TestClusterRetentionAndTotalsReachAllShards puts old txns and new ones on both shards. The old ones have the lowest ids,
// as those of a grown history.
func TestClusterRetentionAndTotalsReachAllShards(t *testing.T) {
	t.Parallel()
	z := service.Zone{ID: 1063, Description: "retention", Rate: 9, Window: time.Hour}
	d, store := clusterStand(t, z)
	const old, perKey = 8, 3
	keys := keysOfBothShards("retained", old)
	for i, key := range keys {
		dbtest.Exec(t, d.SQL, "INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, counted) "+
			"VALUES (?, UTC_TIMESTAMP(6) - INTERVAL 500 DAY, ?, ?, FALSE, FALSE, TRUE)", i+1, z.ID, key)
		for range perKey {
			decided(t, store, service.Bucket{ZoneID: z.ID, Key: key})
		}
	}
	// With another number of days the walk over the ids begins anew, also on a cluster that an earlier run has used.
	dbtest.Exec(t, d.SQL, "UPDATE retention_policy SET keep_days = ?", 401+rand.IntN(80))
	defer dbtest.Exec(t, d.SQL, "UPDATE retention_policy SET keep_days = 400")
	dbtest.Eventually(t, "retention removes the old txns of both shards", func() bool {
		err := store.Retention().Finish(t.Context(), func(run retention.Run) {
			if run.Err != nil {
				t.Errorf("%s: %v", run.Task, run.Err)
			}
		})
		if err != nil && !errors.Is(err, retention.ErrElsewhere) {
			t.Fatal(err)
		}
		return d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE zone_id = ? AND created_at < UTC_TIMESTAMP() - INTERVAL 490 DAY", z.ID) == 0
	})
	d.WantCount(t, old*perKey, "SELECT COUNT(*) FROM zone_txn WHERE zone_id = ?", z.ID)
	totals, err := store.Totals.ZoneTotals(t.Context(), z.ID, service.TotalsQuery{By: service.SpanDay})
	if err != nil {
		t.Fatal(err)
	}
	var sum service.Totals
	for _, span := range totals.Spans {
		sum = sum.Plus(span.Totals)
	}
	if sum.Attempts < old*perKey {
		t.Errorf("the totals have %d attempts of both shards, want %d", sum.Attempts, old*perKey)
	}
}
