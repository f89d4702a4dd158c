//go:build cluster

package db

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/service"
)

// onBothShards returns a bucket of each of two zones, on different shards.
func onBothShards(firstZone, secondZone int64) [2]service.Bucket {
	keys := keysOfBothShards("outcome-jürgen", 2)
	return [2]service.Bucket{{ZoneID: firstZone, Key: keys[0]}, {ZoneID: secondZone, Key: keys[1]}}
}

func TestClusterReportSettlesWhatOneShardLost(t *testing.T) {
	t.Parallel()
	d, store := clusterStand(t, service.Zone{ID: 2003, Rate: 100, Window: time.Hour, Counts: service.CountsFailures},
		service.Zone{ID: 2004, Rate: 100, Window: time.Hour, Counts: service.CountsFailures})
	buckets := onBothShards(2003, 2004)
	decision := decided(t, store, buckets[:]...)
	report := []service.Report{{TxnID: decision.TxnID(), Outcome: service.OutcomeSuccess}}
	if receipts, err := store.ReportAll(t.Context(), report); err != nil || receipts[0] != nil {
		t.Fatal(receipts, err)
	}
	// As if the second shard had been lost between the two COMMITs.
	dbtest.Exec(t, d.SQL, "UPDATE zone_txn SET outcome = NULL, counted = TRUE WHERE zone_id = ? AND bucket_key = ?", buckets[1].ZoneID,
		buckets[1].Key)
	if receipts, err := store.ReportAll(t.Context(), report); err != nil || receipts[0] != nil {
		t.Fatal(receipts, err)
	}
	for _, bucket := range buckets {
		if txn := d.Txns(t, bucket)[0]; txn.Outcome != service.OutcomeSuccess || txn.Counted {
			t.Errorf("after the second report: %+v", txn)
		}
	}
	zones, err := store.History.TxnZones(t.Context(), []uint64{decision.TxnID()})
	got := zones[decision.TxnID()]
	if slices.Sort(got); err != nil || !slices.Equal(got, []int64{2003, 2004}) {
		t.Errorf("zones %v, %v", zones, err)
	}
}

// TestClusterAttemptIDOnSeveralShardsNamesNone uses an attempt id again with a bucket of another shard. There the
// id is not known, so a report by it could mean either check.
func TestClusterAttemptIDOnSeveralShardsNamesNone(t *testing.T) {
	t.Parallel()
	d, store := clusterStand(t, service.Zone{ID: 2005, Rate: 100, Window: time.Hour, Counts: service.CountsFailures},
		service.Zone{ID: 2006, Rate: 100, Window: time.Hour})
	buckets := onBothShards(2005, 2006)
	pair := fmt.Sprintf("%x", rand.Uint64())
	decision := decideOne(t, store, attempt(pair, buckets[:]...))
	report := []service.Report{{AttemptID: pair, Outcome: service.OutcomeSuccess}}
	for range 2 {
		if receipts, err := store.ReportAll(t.Context(), report); err != nil || receipts[0] != nil {
			t.Fatal(receipts, err)
		}
	}
	found, err := store.History.Attempt(t.Context(), pair)
	if err != nil || found.Decision.TxnID() != decision.TxnID() || len(found.Txns) != 2 || found.Outcome != service.OutcomeSuccess {
		t.Errorf("recalled %+v, %v", found, err)
	}
	twice := fmt.Sprintf("%x", rand.Uint64())
	for _, bucket := range buckets {
		decideOne(t, store, attempt(twice, bucket))
	}
	report[0].AttemptID = twice
	if receipts, err := store.ReportAll(t.Context(), report); err != nil || !errors.Is(receipts[0], service.ErrConflict) {
		t.Errorf("an id of two checks: %v, %v", receipts, err)
	}
	if _, err := store.History.Attempt(t.Context(), twice); !errors.Is(err, service.ErrConflict) {
		t.Errorf("an id of two checks: %v", err)
	}
	zones, err := store.History.AttemptZones(t.Context(), []string{twice, pair})
	for id, got := range zones {
		if slices.Sort(got); !slices.Equal(got, []int64{2005, 2006}) {
			t.Errorf("%s: zones %v, %v", id, zones, err)
		}
	}
	if len(zones) != 2 || err != nil {
		t.Errorf("zones %v, %v", zones, err)
	}
	for _, bucket := range buckets {
		for _, txn := range d.Txns(t, bucket) {
			if txn.AttemptID == twice && txn.Outcome != "" {
				t.Errorf("the outcome was recorded for %+v", txn)
			}
		}
	}
}
