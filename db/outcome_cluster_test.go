//go:build cluster

package db

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/records"
	"velocityd/db/session"
	"velocityd/service"
)

// outcomeStand returns the cluster's database with these zones, a store on it, and a prefix for
// keys that no other run has.
func outcomeStand(t *testing.T, zones ...service.Zone) (d *dbtest.Database, store *Store, prefix string) {
	t.Helper()
	d = &dbtest.Database{DSN: clusterDSN(t)}
	store = connect(t, d, session.Options{LockWait: 5 * time.Second})
	d.SQL = store.lookUps.Conns.DB
	for _, zone := range zones {
		d.SetZone(t, zone)
	}
	return d, store, fmt.Sprintf("outcome-jürgen-%x-", rand.Uint32())
}

// overBothShards returns two buckets that lie on different shards.
func overBothShards(t *testing.T, store *Store, firstZone, secondZone int64, prefix string) [2]service.Bucket {
	t.Helper()
	first := service.Bucket{ZoneID: firstZone, Key: prefix + "first"}
	if _, err := ask(t.Context(), store, check(first)); err != nil { // now the store knows the shards
		t.Fatal(err)
	}
	dbtest.Exec(t, store.lookUps.Conns, "DELETE FROM zone_txn WHERE zone_id = ? AND bucket_key = ?", first.ZoneID, first.Key)
	shard, _ := store.ShardOf(first)
	for i := range 100 {
		second := service.Bucket{ZoneID: secondZone, Key: fmt.Sprint(prefix, i)}
		if other, _ := store.ShardOf(second); other != shard {
			return [2]service.Bucket{first, second}
		}
	}
	t.Fatal("the store knows no bucket on another shard")
	return [2]service.Bucket{}
}

func TestClusterOutcomeSpeaksForBucketsOfBothShards(t *testing.T) {
	t.Parallel()
	d, store, prefix := outcomeStand(t,
		service.Zone{ID: 2001, Rate: 100, Window: time.Hour, Counts: service.CountsFailures},
		service.Zone{ID: 2002, Rate: 100, Window: time.Hour, ResetOnSuccess: true})
	buckets := overBothShards(t, store, 2001, 2002, prefix)
	var reports []service.Report
	var group sync.WaitGroup
	decisions := make([]service.Decision, 10)
	for i := range decisions {
		group.Go(func() {
			list := slices.Clone(buckets[:])
			if i%2 == 0 {
				slices.Reverse(list)
			}
			var err error
			if decisions[i], err = ask(t.Context(), store, check(list...)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for i, decision := range decisions {
		reports = append(reports, service.Report{TxnID: decision.Verdicts[i%2].TxnID, Outcome: service.OutcomeFailure})
	}
	last := &reports[len(reports)-1]
	last.Outcome = service.OutcomeSuccess
	for range 2 { // and again
		receipts, err := store.ReportAll(t.Context(), append(reports, service.Report{TxnID: 1 << 60, Outcome: service.OutcomeSuccess}))
		if err != nil || errors.Join(receipts[:10]...) != nil || !errors.Is(receipts[10], service.ErrNotFound) {
			t.Fatal(receipts, err)
		}
	}
	for i, bucket := range buckets {
		counted, successes := 0, 0
		for _, txn := range d.Txns(t, bucket) {
			if txn.Counted {
				counted++
			}
			if txn.Outcome == service.OutcomeSuccess {
				successes++
			}
		}
		if want := []int{9, 0}[i]; counted != want || successes != 1 {
			t.Errorf("bucket %d of zone %d: %d count, want %d; %d successes, want 1", i, bucket.ZoneID, counted, want, successes)
		}
	}
	txn, err := store.History.Txn(t.Context(), last.TxnID)
	if err != nil || txn.Outcome != service.OutcomeSuccess {
		t.Errorf("txn %+v, %v", txn, err)
	}
	zones, err := store.History.TxnZones(t.Context(), []uint64{last.TxnID})
	got := zones[last.TxnID]
	if slices.Sort(got); err != nil || !slices.Equal(got, []int64{2001, 2002}) {
		t.Errorf("zones %v, %v", zones, err)
	}
}

func TestClusterReportSettlesWhatOneShardLost(t *testing.T) {
	t.Parallel()
	d, store, prefix := outcomeStand(t, service.Zone{ID: 2003, Rate: 100, Window: time.Hour, Counts: service.CountsFailures})
	buckets := overBothShards(t, store, 2003, 2003, prefix)
	decision, err := ask(t.Context(), store, check(buckets[:]...))
	if err != nil {
		t.Fatal(err)
	}
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
}

func TestClusterReleasesAndPeeksByNetworkAndKey(t *testing.T) {
	t.Parallel()
	const zoneID = 2004
	d, store, _ := outcomeStand(t, service.Zone{
		ID: zoneID, Rate: 2, Window: time.Hour, Lockout: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP},
	})
	dbtest.Exec(t, d.SQL, "UPDATE zone_master SET overridden = TRUE WHERE id = ?", zoneID)
	dbtest.Exec(t, d.SQL, "DELETE FROM zone_override WHERE zone_id = ?", zoneID)
	dbtest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, prefix, network, action, rate, `window`, created_at) "+
		"VALUES (?, '203.0.0.0/8', ?, 'limit', 1, 7200, UTC_TIMESTAMP(6))", zoneID, records.Network(netip.MustParsePrefix("203.0.0.0/8")))
	dbtest.Exec(t, d.SQL, "INSERT IGNORE INTO zone_override_prefix_length (zone_id, family, prefix_length) VALUES (?, 4, 8)", zoneID)
	address := netip.AddrFrom4([4]byte{203, byte(rand.Uint32()), byte(rand.Uint32()), byte(rand.Uint32())})
	bucket := service.Bucket{ZoneID: zoneID, Key: address.String()}
	never := bucket
	never.Key = address.Next().String()
	for range 2 {
		if _, err := ask(t.Context(), store, check(bucket)); err != nil {
			t.Fatal(err)
		}
	}
	peek, err := store.Peek(t.Context(), bucket)
	if err != nil || peek.Rate != 1 || peek.Window.Duration != 2*time.Hour || peek.Velocity != 1 ||
		peek.Remaining != 0 || len(peek.Txns) != 2 ||
		peek.Override == nil || peek.Override.Prefix.String() != "203.0.0.0/8" || peek.LockedUntil.IsZero() || !peek.Txns[0].Blocked {
		t.Errorf("full: %+v, %v", peek, err)
	}
	for _, b := range []service.Bucket{bucket, never} {
		if err := store.Release(t.Context(), b, "ann", "called: \"é\" 🔑"); err != nil {
			t.Fatal(err)
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_audit WHERE zone_id = ? AND subject = 'bucket' AND action = 'release' AND principal = "+
			"'ann' "+
			"AND changed_by <> '' AND JSON_UNQUOTE(JSON_EXTRACT(state_after, '$.bucket_key')) = ? "+
			"AND JSON_UNQUOTE(JSON_EXTRACT(state_after, '$.reason')) = ?", zoneID, b.Key, "called: \"é\" 🔑"); n != 1 {
			t.Errorf("%d releases of %s are audited, want 1", n, b.Key)
		}
		peek, err := store.Peek(t.Context(), b)
		if err != nil || peek.Velocity != 0 || peek.Remaining != 1 || !peek.LockedUntil.IsZero() {
			t.Errorf("released: %+v, %v", peek, err)
		}
	}
	if n := d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock WHERE zone_id = ? AND bucket_key = ?", zoneID, never.Key); n != 0 {
		t.Error("a key that was never seen got a lock row")
	}
	unknown := bucket
	unknown.ZoneID = 2999
	if err := store.Release(t.Context(), unknown, "", "why"); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("unknown zone: %v, want ErrNotFound", err)
	}
	if _, err := store.Peek(t.Context(), unknown); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("unknown zone: %v, want ErrNotFound", err)
	}
}

// TestClusterAttemptIDOnSeveralShardsNamesNone uses an attempt id again with a bucket of another shard. There the
// id is not known, so a report by it could mean either check.
func TestClusterAttemptIDOnSeveralShardsNamesNone(t *testing.T) {
	t.Parallel()
	d, store, prefix := outcomeStand(t, service.Zone{ID: 2005, Rate: 100, Window: time.Hour, Counts: service.CountsFailures},
		service.Zone{ID: 2006, Rate: 100, Window: time.Hour})
	buckets := overBothShards(t, store, 2005, 2006, prefix)
	pair := fmt.Sprintf("%x", rand.Uint64())
	decision, err := ask(t.Context(), store, attempt(pair, buckets[:]...))
	if err != nil {
		t.Fatal(err)
	}
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
		if _, err := ask(t.Context(), store, attempt(twice, bucket)); err != nil {
			t.Fatal(err)
		}
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
