//go:build cluster

package db

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/db/records"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/tools/enginetest"
)

func TestClusterEditsLeaveWhatTriggersLeave(t *testing.T) {
	t.Parallel()
	d, store := clusterStand(t)
	for seed := uint64(12); seed < 15; seed++ {
		editAlike(t, withTriggers(t), newEditor(t, d.SQL, store), seed, 200)
	}
	// Beside the cluster's zones of other tests, which write by plain SQL.
	mine := func() (found []records.Unaudited) {
		t.Helper()
		compared, err := store.Records.CompareAudit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range compared.Unaudited {
			if u.ZoneID >= firstEdited && u.ZoneID <= lastEdited {
				found = append(found, u)
			}
		}
		return found
	}
	if found := mine(); found != nil {
		t.Errorf("zone_audit does not show %v", found)
	}
	put(t, store, zone(lastEdited, 5, time.Minute), "")
	enginetest.Exec(t, d.SQL, "UPDATE zone_master SET rate = 6 WHERE id = ?", lastEdited)
	if found := mine(); !slices.Equal(found, []records.Unaudited{{ZoneID: lastEdited}}) {
		t.Errorf("an edit beside the service: found %v", found)
	}
}

func TestClusterHoldsTokenLimitsInRace(t *testing.T) {
	t.Parallel()
	_, store := clusterStand(t)
	name := fmt.Sprint("racer", time.Now().UnixNano())
	made, refused := make(chan access.Credential, 6), make(chan error, 6)
	atOnce(cap(made), func(int) {
		c, err := store.Records.AddCredential(t.Context(), access.NewTokenCredential(access.NewToken(), callerOf(name)),
			"dba")
		if err != nil {
			refused <- err
			return
		}
		made <- c
	})
	close(made)
	close(refused)
	if len(made) != access.MaxLiveOfName {
		t.Errorf("of six at once %d were made", len(made))
	}
	for err := range refused {
		if !errors.Is(err, service.ErrConflict) {
			t.Error(err)
		}
	}
	for c := range made {
		if err := store.Records.UseCredential(t.Context(), c.ID); err != nil {
			t.Error(err)
		}
		if ended, err := store.Records.RevokeCredential(t.Context(), c.ID, "dba"); err != nil || ended.LastUsedAt.IsZero() {
			t.Errorf("revoked: %+v, %v", ended, err)
		}
	}
	now, err := store.Records.Now(t.Context())
	if err != nil || time.Since(now).Abs() > time.Minute {
		t.Errorf("the clock shows %s, %v", now, err)
	}
}

func TestClusterCensusCountsTheBucketsOfAllShards(t *testing.T) {
	t.Parallel()
	const zoneID = 3010
	d, store := clusterStand(t)
	locking := zone(zoneID, 5, time.Minute)
	locking.Lockout = time.Minute
	put(t, store, locking, "")
	var rows []string
	keys := keysOfBothShards("census", 12)
	for _, key := range keys {
		rows = append(rows, fmt.Sprintf("(%d, '%s', '2026-01-01', '2199-01-01', 1)", zoneID, key))
	}
	enginetest.Exec(t, d.SQL, "INSERT INTO zone_lockout (zone_id, bucket_key, locked_at, locked_until, txn_id) VALUES "+
		strings.Join(rows, ",")+
		" ON DUPLICATE KEY UPDATE locked_until = VALUES(locked_until)")
	if _, err := store.Records.AddOverride(
		t.Context(), service.Override{ZoneID: zoneID, Key: fmt.Sprint(time.Now().UnixNano()), Action: service.OverrideDeny},
		"ann"); err != nil {
		t.Fatal(err)
	}
	census, err := store.Records.Census(t.Context())
	at := slices.IndexFunc(census, func(c service.ZoneStats) bool { return c.ZoneID == zoneID })
	if err != nil || at < 0 || census[at].Locked != len(keys) || census[at].Overrides[service.OverrideDeny] == 0 {
		t.Errorf("got %+v, %v", census, err)
	}
	if err := store.Records.DeleteZone(t.Context(), zoneID, service.Match{}, ""); err != nil {
		t.Error(err)
	}
}

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
	enginetest.Exec(t, d.SQL, "UPDATE zone_txn SET outcome = NULL, counted = TRUE WHERE zone_id = ? AND bucket_key = ?",
		buckets[1].ZoneID,
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
	if err != nil || found.Decision.TxnID() != decision.TxnID() || len(found.Txns) != 2 ||
		found.Outcome != service.OutcomeSuccess {
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
