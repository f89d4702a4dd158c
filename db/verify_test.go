package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/db/verify"
	"velocityd/service"
	limits "velocityd/service/proof"
	"velocityd/tools/enginetest"
)

// eachVerified runs a test on each engine, and on the portable tables, with a store.
func eachVerified(t *testing.T, test func(*testing.T, *enginetest.Database, *Store)) {
	t.Helper()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{MaxConns: session.LeastMaxConns})
		test(t, d, store)
	})
}

// verifyAll returns the kinds of all findings, each once, in order.
func verifyAll(t *testing.T, store *Store, o verify.Options) (kinds []limits.Kind, result verify.Result) {
	t.Helper()
	if o.Findings == 0 {
		o.Findings, o.Places = 1000, limits.DefaultPlaces
	}
	result, err := store.VerifyLimits(t.Context(), o, func(f limits.Finding) {
		kinds = append(kinds, f.Kind)
		if strings.Contains(f.String(), "alice") || strings.Contains(f.String(), "192.0.2.1") {
			t.Errorf("a finding names a key: %s", f)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds), result
}

// agePast moves all that was recorded, and the changes of zones, ten minutes into the past, so that no slack excuses
// it.
func agePast(t *testing.T, d *enginetest.Database) {
	t.Helper()
	const ago = " - INTERVAL 10 MINUTE"
	enginetest.Exec(t, d.SQL, "UPDATE zone_txn SET created_at = created_at"+ago+", repeated_at = repeated_at"+ago+
		", uncounted_at = uncounted_at"+ago)
	enginetest.Exec(t, d.SQL, "UPDATE zone_attempt SET created_at = created_at"+ago)
	enginetest.Exec(t, d.SQL, "UPDATE zone_bucket_lock SET locked_until = locked_until"+ago)
	enginetest.Exec(t, d.SQL, "UPDATE zone_audit SET changed_at = changed_at - INTERVAL IF(action = 'release', 10, 20) MINUTE")
}

// TestTheAuditTellsWhichLimitHeldWhen narrows a zone two hours ago, and ends an override half an hour ago: rows that
// were put in since and before are proven by the limit of their time.
func TestTheAuditTellsWhichLimitHeldWhen(t *testing.T) {
	t.Parallel()
	eachVerified(t, func(t *testing.T, d *enginetest.Database, store *Store) {
		d.LeaveUnaudited()
		ctx := t.Context()
		zone := service.Zone{ID: 1, Rate: 4, Window: time.Minute}
		_, err := store.Records.PutZone(ctx, zone, service.Match{}, "ann")
		o := service.Override{ZoneID: 1, Key: "alice", Action: service.OverrideLimit, Rate: 1, Reason: "test"}
		if err == nil {
			o, err = store.Records.AddOverride(ctx, o, "ann")
		}
		zone.Rate = 2
		if err == nil {
			_, err = store.Records.PutZone(ctx, zone, service.Match{}, "ann")
		}
		if err == nil {
			err = store.Records.DeleteOverride(ctx, 1, o.ID, "ann")
		}
		if err != nil {
			t.Fatal(err)
		}
		enginetest.Exec(t, d.SQL, "UPDATE zone_audit SET changed_at = UTC_TIMESTAMP(6) - INTERVAL IF(action = 'insert', "+
			"240, IF(action = 'update', 120, 30)) MINUTE")
		over := []limits.Kind{limits.KindOverRate}
		for _, c := range []struct {
			key          string
			minutes, txn int
			want         []limits.Kind
		}{
			{"bob", 180, 4, nil},
			{"bob", 180, 5, over},
			{"bob", 60, 2, nil},
			{"bob", 60, 3, over},
			{"alice", 180, 1, nil},
			{"alice", 180, 2, over},
			{"alice", 60, 1, nil},
			{"alice", 60, 2, over},
			{"alice", 10, 2, nil},
			{"alice", 10, 3, over},
		} {
			enginetest.Exec(t, d.SQL, "DELETE FROM zone_txn")
			for range c.txn {
				enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) "+
					"VALUES (UTC_TIMESTAMP(6) - INTERVAL ? MINUTE, 1, ?, 0, 0, 1)", c.minutes, c.key)
			}
			if kinds, result := verifyAll(t, store, verify.Options{}); !slices.Equal(kinds, c.want) || len(result.Unknown) != 0 {
				t.Errorf("%d txns of %s %d minutes ago: found %v in %+v, want %v", c.txn, c.key, c.minutes, kinds, result, c.want)
			}
		}
	})
}

// attemptLogins lets a login be tried until its user and its address are full, with attempt ids, a success that gives
// its place back, and a release.
func attemptLogins(t *testing.T, store *Store, buckets ...service.Bucket) {
	t.Helper()
	try := func(id string) service.Decision {
		t.Helper()
		found, err := store.CheckAll(t.Context(), service.Call{Checks: []service.Check{{Buckets: buckets, AttemptID: id}}})
		if err != nil || found[0].Err != nil {
			t.Fatal(err, found)
		}
		return found[0]
	}
	report := service.Report{TxnID: try("first").TxnID(), Outcome: service.OutcomeSuccess}
	if errs, err := store.ReportAll(t.Context(), []service.Report{report}); err != nil || errs[0] != nil {
		t.Fatal(err, errs)
	}
	for i := range 7 {
		try(fmt.Sprintf("try-%d", i))
	}
	buckets = []service.Bucket{{ZoneID: buckets[0].ZoneID, Key: "carol"}}
	try("released")
	release(t, store, buckets[0])
}

// TestASuccessThatRetentionRemovedIsNotMissed lets retention remove the success that reset a bucket, and leave a later
// txn of it.
func TestASuccessThatRetentionRemovedIsNotMissed(t *testing.T) {
	t.Parallel()
	eachVerified(t, func(t *testing.T, d *enginetest.Database, store *Store) {
		d.LeaveUnaudited()
		d.SetZone(t, service.Zone{ID: 1, Rate: 3, Window: time.Hour, ResetOnSuccess: true})
		var ids []uint64
		for range 2 {
			found, err := store.CheckAll(t.Context(), service.Call{Checks: []service.Check{
				{Buckets: []service.Bucket{{ZoneID: 1, Key: "alice"}}},
			}})
			if err != nil || found[0].Err != nil {
				t.Fatal(err, found)
			}
			ids = append(ids, found[0].TxnID())
		}
		report := service.Report{TxnID: ids[0], Outcome: service.OutcomeSuccess}
		if errs, err := store.ReportAll(t.Context(), []service.Report{report}); err != nil || errs[0] != nil {
			t.Fatal(err, errs)
		}
		enginetest.Exec(t, d.SQL, "UPDATE zone_audit SET changed_at = changed_at - INTERVAL 60 DAY")
		enginetest.Exec(t, d.SQL, "DELETE FROM zone_txn WHERE id = ?", ids[0])
		for hours, want := range map[int][]limits.Kind{710: nil, 690: {limits.KindUncharged}} {
			enginetest.Exec(t, d.SQL, "UPDATE zone_txn SET uncounted_at = uncounted_at - INTERVAL TIMESTAMPDIFF(SECOND, "+
				"UTC_TIMESTAMP(6) - INTERVAL ? HOUR, created_at) SECOND, created_at = created_at - INTERVAL TIMESTAMPDIFF(SECOND, "+
				"UTC_TIMESTAMP(6) - INTERVAL ? HOUR, created_at) SECOND", hours, hours)
			enginetest.Exec(t, d.SQL, "UPDATE retention_policy SET keep_days = 30")
			kinds, result := verifyAll(t, store, verify.Options{})
			if !slices.Equal(kinds, want) || want == nil && result.Unknown[limits.CauseHistory] != 1 {
				t.Errorf("%d hours ago: found %v in %+v, want %v", hours, kinds, result, want)
			}
		}
	})
}

func TestAProofNeitherWaitsNorStopsAnybody(t *testing.T) {
	t.Parallel()
	eachVerified(t, func(t *testing.T, d *enginetest.Database, store *Store) {
		d.SetZone(t, service.Zone{ID: 1, Rate: 3, Window: time.Hour})
		d.SetZone(t, service.Zone{ID: 2, Rate: 4, Window: time.Hour})
		attemptLogins(t, store, service.Bucket{ZoneID: 1, Key: "alice"}, service.Bucket{ZoneID: 2, Key: "192.0.2.1"})
		agePast(t, d)
		d.HasAgedRows()
		tx, err := d.SQL.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		for _, change := range []string{
			"zone_txn SET repeats = 1", "zone_bucket_lock SET lockout_us = 1",
			"zone_master SET rate = rate + 1",
		} {
			enginetest.Exec(t, tx, "UPDATE "+change) // locks all rows
		}
		if kinds, result := verifyAll(t, store, verify.Options{}); len(kinds) > 0 || result.Rows == 0 {
			t.Errorf("found %v in %+v", kinds, result)
		}
		since := time.Now().Add(-time.Minute)
		if kinds, result := verifyAll(t, store, verify.Options{Since: since}); len(kinds) > 0 || result.Rows == 0 {
			t.Errorf("found %v in %+v since %s: rows of the windows before are read, too", kinds, result, since)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		o := verify.Options{Findings: 1, Places: limits.DefaultPlaces}
		if _, err := store.VerifyLimits(ended, o, func(limits.Finding) {}); !errors.Is(err, context.Canceled) {
			t.Errorf("after its caller has left: %v", err)
		}
	})
}
