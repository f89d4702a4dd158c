//go:build cluster

package db

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"velocityd/db/retention"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// TestClusterHistoryPagesHaveTxnsOfAllShards reads one zone of a cluster that other tests use, too.
func TestClusterHistoryPagesHaveTxnsOfAllShards(t *testing.T) {
	t.Parallel()
	z := service.Zone{ID: 1062, Description: "history", Rate: 3, Window: time.Hour}
	d, store := clusterStand(t, z)
	var all []service.Txn
	var keys []string
	for i := range 8 {
		keys = append(keys, fmt.Sprint("history", i))
	}
	for range 5 {
		for _, key := range keys {
			decided(t, store, service.Bucket{ZoneID: z.ID, Key: key})
		}
	}
	for _, key := range keys {
		bucket := service.Bucket{ZoneID: z.ID, Key: key}
		all = append(all, d.Txns(t, bucket)...)
	}
	slices.SortFunc(all, func(x, y service.Txn) int { return cmp.Compare(x.ID, y.ID) })
	enginetest.Eventually(t, "ascending pages reach the newest txn", func() bool {
		var now time.Time
		if err := d.SQL.QueryRow("SELECT UTC_TIMESTAMP(6)").Scan(&now); err != nil {
			t.Fatal(err)
		}
		return now.Add(-service.HistoryLag - time.Second).After(all[len(all)-1].CreatedAt.Time)
	})
	enginetest.Exec(t, d.SQL, "INSERT IGNORE INTO zone_txn_mark (txn_id, marked_at) VALUES (?, ?)", all[20].ID,
		all[20].CreatedAt.Time)
	isBlocked := true
	for name, q := range map[string]service.HistoryQuery{
		"zone":    {},
		"blocked": {Blocked: &isBlocked},
		"since":   {Since: all[9].CreatedAt.Time, Until: all[33].CreatedAt.Time},
		"key":     {Keys: keys[:1]},
		"keys":    {Keys: keys[1:4], Since: all[4].CreatedAt.Time},
	} {
		q.Zones = []int64{z.ID}
		for _, q.Order = range []service.HistoryOrder{service.NewestFirst, service.OldestFirst} {
			for _, q.Limit = range []int{2, 100} {
				var want []uint64
				for _, txn := range all {
					if q.Matches(txn) {
						want = append(want, txn.ID)
					}
				}
				if q.Order == service.NewestFirst {
					slices.Reverse(want)
				}
				if got := idsOf(t, store.History, q); !slices.Equal(got, want) {
					t.Errorf("%s, %s, pages of %d: got %v, want %v", name, q.Order, q.Limit, got, want)
				}
			}
		}
	}
	for _, want := range []service.Txn{all[0], all[20], all[39]} {
		if txn, err := store.History.Txn(t.Context(), want.ID); err != nil || txn != want {
			t.Errorf("txn %d: %+v, %v", want.ID, txn, err)
		}
	}
}

// TestClusterRetentionAndTotalsReachAllShards puts old txns and new ones on both shards. The old ones have the lowest
// ids, as those of a grown history.
func TestClusterRetentionAndTotalsReachAllShards(t *testing.T) {
	t.Parallel()
	z := service.Zone{ID: 1063, Description: "retention", Rate: 9, Window: time.Hour}
	d, store := clusterStand(t, z)
	const old, perKey = 8, 3
	keys := keysOfBothShards("retained", old)
	for i, key := range keys {
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, "+
			"counted) VALUES (?, UTC_TIMESTAMP(6) - INTERVAL 500 DAY, ?, ?, FALSE, FALSE, TRUE)", i+1, z.ID, key)
		for range perKey {
			decided(t, store, service.Bucket{ZoneID: z.ID, Key: key})
		}
	}
	// With another number of days the walk over the ids begins anew, also on a cluster that an earlier run has used.
	enginetest.Exec(t, d.SQL, "UPDATE retention_policy SET keep_days = ?", 401+rand.IntN(80))
	defer enginetest.Exec(t, d.SQL, "UPDATE retention_policy SET keep_days = 400")
	enginetest.Eventually(t, "retention removes the old txns of both shards", func() bool {
		err := store.RetentionRunner().Finish(t.Context(), func(run retention.Run) {
			if run.Err != nil {
				t.Errorf("%s: %v", run.Task, run.Err)
			}
		})
		if err != nil && !errors.Is(err, retention.ErrElsewhere) {
			t.Fatal(err)
		}
		return d.Count(
			t, "SELECT COUNT(*) FROM zone_txn WHERE zone_id = ? AND created_at < UTC_TIMESTAMP() - INTERVAL 490 DAY", z.ID) == 0
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
