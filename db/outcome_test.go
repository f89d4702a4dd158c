package db

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// failures is zone 1, where failures count.
func failures() service.Zone {
	return service.Zone{ID: 1, Rate: 100, Window: time.Hour, Counts: service.CountsFailures}
}

func TestReportOnHeldBucketIsBusyAndUnrecorded(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{LockWait: time.Second, MaxConns: 1}, failures())
		decisions, err := store.CheckAll(t.Context(), service.Call{Checks: []service.Check{
			{Buckets: []service.Bucket{user("alice"), user("bob")}}, {Buckets: []service.Bucket{user("carol")}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		release := d.Hold(t, user("bob"))
		asked := time.Now()
		reports := []service.Report{
			{TxnID: decisions[1].TxnID(), Outcome: service.OutcomeSuccess},
			{TxnID: decisions[0].TxnID(), Outcome: service.OutcomeSuccess},
		}
		if _, err := store.ReportAll(t.Context(), reports); !errors.Is(err, service.ErrBusy) ||
			time.Since(asked) > 15*time.Second {
			t.Errorf("got %v after %v, want ErrBusy", err, time.Since(asked))
		}
		d.WantCount(t, 0, "SELECT COUNT(*) FROM zone_txn WHERE outcome IS NOT NULL OR NOT counted")
		wantHolderAlone(t, d)
		release()
		if receipts, err := store.ReportAll(t.Context(), reports); err != nil || errors.Join(receipts...) != nil {
			t.Errorf("after release: %v, %v", receipts, err)
		}
		d.WantCount(t, 3, "SELECT COUNT(*) FROM zone_txn WHERE outcome = 'success' AND NOT counted")
	})
}

// TestSiblingsAreFoundHoweverManyCameBetween puts the txns of one check as far
// apart as other sessions may.
func TestSiblingsAreFoundHoweverManyCameBetween(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{}, failures())
		buckets := []service.Bucket{user("a"), user("b"), user("c")}
		for _, apart := range []int{1, 15, 16, 17, 255, 256, 257, 5000, 30_000} {
			decisions := decide(t, store, check(buckets...))
			// As if others had been given the ids between.
			first := decisions[0].Verdicts[0].TxnID
			for i := len(buckets) - 1; i > 0; i-- {
				enginetest.Exec(t, d.SQL, "UPDATE zone_txn SET id = ? WHERE id = ?", first+uint64(i*apart),
					decisions[0].Verdicts[i].TxnID)
			}
			enginetest.Exec(t, d.SQL, fmt.Sprint("ALTER TABLE zone_txn AUTO_INCREMENT = ", first+uint64(3*apart)+10))
			for i := range buckets { // whichever is named
				report := service.Report{TxnID: first + uint64(i*apart), Outcome: service.OutcomeFailure}
				if receipts, err := store.ReportAll(t.Context(), []service.Report{report}); err != nil || receipts[0] != nil {
					t.Fatalf("%d apart, txn %d: %v, %v", apart, i, receipts, err)
				}
				if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE outcome = 'failure' AND id >= ?", first); n != len(
					buckets) {
					t.Errorf("%d apart, txn %d: the outcome speaks for %d of %d", apart, i, n, len(buckets))
				}
				enginetest.Exec(t, d.SQL, "UPDATE zone_txn SET outcome = NULL")
			}
		}
	})
}

// TestAnOutcomeIsTakenWhateverHappenedMeanwhile reports the last txn of a check of three buckets.
func TestAnOutcomeIsTakenWhateverHappenedMeanwhile(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		for name, c := range map[string]struct {
			do   func(d *enginetest.Database, sibling uint64)
			left int // txns that the outcome speaks for
		}{
			"a sibling was deleted": {func(d *enginetest.Database, sibling uint64) {
				d.LeaveUnaudited()
				enginetest.Exec(t, d.SQL, "DELETE FROM zone_txn WHERE id = ?", sibling)
			}, 2},
			"the zone was deleted": {func(d *enginetest.Database, _ uint64) { d.DeleteZone(t, 1) }, 3},
			"the zone is being edited": {func(d *enginetest.Database, _ uint64) {
				sqlSession(t, d, "START TRANSACTION", "UPDATE zone_master SET rate = 7 WHERE id = 1")
			}, 3},
		} {
			d, store := f.stand(t, session.Options{LockWait: time.Second}, failures())
			verdicts := decided(t, store, user("a"), user("b"), user("c")).Verdicts
			c.do(d, verdicts[1].TxnID)
			report(t, store, verdicts[2].TxnID, service.OutcomeSuccess)
			if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE outcome = 'success'"); n != c.left {
				t.Errorf("%s: %d txns are successes, want %d", name, n, c.left)
			}
		}
	})
}

// TestAResetWaitsForNoOtherBucket has another session record the bucket that comes next in the index.
func TestAResetWaitsForNoOtherBucket(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		resetting := zone(1, 100, time.Hour)
		resetting.ResetOnSuccess = true
		d, store := stand(t, engine, session.Options{LockWait: time.Second}, resetting)
		var last service.Decision
		for range 9 {
			decisions := decide(t, store, check(user("m")))
			last = decisions[0]
		}
		d.LeaveUnaudited()
		// So many that no engine reads the whole table in place of a range of an index.
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) "+
			"WITH RECURSIVE other AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM other WHERE i < 900) "+
			"SELECT UTC_TIMESTAMP(6), 1, CONCAT('k', i), 0, 0, 1 FROM other")
		end := holdOpen(t, d, "READ COMMITTED",
			"INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) VALUES (UTC_TIMESTAMP(6), "+
				"1, 'n', 0, 0, 1)")
		report(t, store, last.TxnID(), service.OutcomeSuccess)
		if err := store.Release(t.Context(), user("m"), "ann", "a test"); err != nil {
			t.Errorf("a release: %v", err)
		}
		end()
		d.WantCount(t, 0, "SELECT COUNT(*) FROM zone_txn WHERE bucket_key = 'm' AND counted")
	})
}
