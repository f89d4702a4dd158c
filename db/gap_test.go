package db

import (
	"errors"
	"math"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
)

// wantErrs asks for checks, as callers do who share a call or, if they wait, as the lane for held
// buckets does. It compares the kinds of their errors.
func wantErrs(t *testing.T, what string, store *Store, waits bool, checks []service.Check, kinds ...error) {
	t.Helper()
	decisions, err := store.CheckAll(t.Context(), service.Call{Checks: checks, NoWait: !waits})
	for i, kind := range kinds {
		got := err
		if err == nil {
			got = decisions[i].Err
		}
		if !errors.Is(got, kind) || kind == nil && got != nil {
			t.Errorf("%s: check %d got %v, want %v", what, i, got, kind)
		}
	}
}

// each makes one check for each key.
func each(keys ...string) []service.Check {
	checks := make([]service.Check, len(keys))
	for i, key := range keys {
		checks[i].Buckets = []service.Bucket{user(key)}
	}
	return checks
}

// identified gives each check an attempt id.
func identified(checks []service.Check, ids ...string) []service.Check {
	for i, id := range ids {
		checks[i].AttemptID = id
	}
	return checks
}

// twoInstances returns two stores, of which a test has one meet a lock by a batch and the other by a
// lone check. Each may wait once.
func twoInstances(t *testing.T, d *dbtest.Database, told *events) (byBatch, byCall *Store) {
	t.Helper()
	options := session.Options{LockWait: time.Second, Observe: told.add}
	return connect(t, d, options), connect(t, d, options)
}

// stayStuck has a store leave alone for as long as a test takes the buckets that it has waited for.
func stayStuck(store *Store) {
	for bucket := range store.hints.stuck.until {
		store.hints.stuck.until[bucket] = time.Now().Add(time.Hour)
	}
}

// TestALockedGapHarmsNewBucketsOnly has a foreign session lock the gap for a new lock row.
func TestALockedGapHarmsNewBucketsOnly(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		old := zone(1, 100, time.Hour)
		d := engine.Database(t, old)
		var told events
		byBatch, byCall := twoInstances(t, d, &told)
		for _, store := range []*Store{byBatch, byCall} {
			wantErrs(t, "before", store, false, each("known", "other"), nil, nil)
		}
		end := holdOpen(t, d, "REPEATABLE READ", "SELECT 1 FROM zone_bucket_lock WHERE zone_id = 1 AND bucket_key = 'missing' FOR UPDATE")
		wantErrs(t, "a batch", byBatch, false, each("known", "missing", "other"), nil, service.ErrHeld, nil)
		wantErrs(t, "a lone check", byCall, false, each("missing"), service.ErrHeld)
		told.want(t, session.LockWaitTimeout, session.LockWaitTimeout)
		for _, store := range []*Store{byBatch, byCall} {
			if store.hints.stuck.making.until.Swap(math.MaxInt64) == 0 { // for as long as the test takes
				t.Error("nobody remembers that the making waited")
			}
		}
		for _, store := range []*Store{byBatch, byCall} {
			wantErrs(t, "a second batch", store, false, each("mister", "known"), service.ErrHeld, nil)
			wantErrs(t, "another new bucket", store, false, each("missed"), service.ErrHeld)
			wantErrs(t, "the same", store, false, each("missing"), service.ErrHeld)
			wantErrs(t, "a known bucket", store, false, each("known"), nil)
		}
		told.want(t) // nobody has waited again
		wantErrs(t, "a batch that waits", byBatch, true, each("missing", "known"), service.ErrBusy, nil)
		wantErrs(t, "a lone check that waits", byCall, true, each("missing"), service.ErrBusy)
		end()
		for _, store := range []*Store{byBatch, byCall} {
			wantErrs(t, "after", store, true, each("missing"), nil)
			wantErrs(t, "after, in a batch", store, true, each("missing", "mister"), nil, nil)
		}
		for _, store := range []*Store{byBatch, byCall} {
			store.hints.stuck.making.until.Store(0)
			wantErrs(t, "when that is forgotten", store, false, each("known", "new"), nil, nil)
		}
		wantSettled(t, d, old)
	})
}

// TestLockedHistoryHarmsItsBucketOnly has a foreign session lock the txns of one bucket, and with
// them the gap for its next one, as somebody does who deletes them and does not commit.
func TestLockedHistoryHarmsItsBucketOnly(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		old := zone(1, 100, time.Hour)
		d := engine.Database(t, old)
		var told events
		byBatch, byCall := twoInstances(t, d, &told)
		for _, store := range []*Store{byBatch, byCall} {
			// The gap behind the txns of deleted belongs to whatever comes next, and nobody asks for that.
			wantErrs(t, "before", store, false, each("deleted", "deletee", "known", "other"), nil, nil, nil, nil)
		}
		end := holdOpen(t, d, "REPEATABLE READ",
			"SELECT 1 FROM zone_txn FORCE INDEX (zone_txn_window) WHERE zone_id = 1 AND bucket_key = 'deleted' AND counted = TRUE FOR UPDATE")
		wantErrs(t, "a batch", byBatch, false, each("known", "deleted", "other"), service.ErrHeld, service.ErrHeld, service.ErrHeld)
		wantErrs(t, "a lone check", byCall, false, each("deleted"), service.ErrHeld)
		told.want(t, session.LockWaitTimeout, session.LockWaitTimeout)
		for _, store := range []*Store{byBatch, byCall} {
			stayStuck(store)
		}
		wantErrs(t, "one of the batch, which waits", byBatch, true, each("known"), nil)
		wantErrs(t, "the other, in two packets", byBatch, true, identified(each("other"), "a"), nil)
		for _, store := range []*Store{byBatch, byCall} {
			wantErrs(t, "a second batch", store, false, each("known", "deleted", "other"), nil, service.ErrHeld, nil)
			wantErrs(t, "the same alone", store, false, each("deleted"), service.ErrHeld)
			wantErrs(t, "a new bucket", store, false, each("mister", "known"), nil, nil)
		}
		told.want(t) // nobody has waited again
		wantErrs(t, "a check that waits", byBatch, true, each("deleted"), service.ErrBusy)
		wantErrs(t, "a check that waits, in two packets", byCall, true, identified(each("deleted"), "b"), service.ErrBusy)
		told.want(t, session.LockWaitTimeout, session.LockWaitTimeout)
		restarted := connect(t, d, session.Options{LockWait: time.Second, Observe: told.add})
		wantErrs(t, "a lone check of an instance that has seen nothing", restarted, false, each("deleted"), service.ErrHeld)
		told.want(t, session.LockWaitTimeout)
		if restarted.hints.stuck.making.lasts() {
			t.Error("locked history is taken for a locked gap between lock rows")
		}
		end()
		for _, store := range []*Store{byBatch, byCall} {
			wantErrs(t, "after", store, true, each("deleted"), nil)
			wantErrs(t, "after, in a batch", store, false, each("known", "deleted"), nil, nil)
		}
		wantSettled(t, d, old)
	})
}

// TestLockedAttemptsHarmAttemptIDsOnly has a foreign session lock the gap for an attempt id.
func TestLockedAttemptsHarmAttemptIDsOnly(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		old := zone(1, 100, time.Hour)
		d := engine.Database(t, old)
		var told events
		store := connect(t, d, session.Options{LockWait: time.Second, Observe: told.add})
		wantErrs(t, "before", store, false, identified(each("known", "other"), "a", "y"), nil, nil)
		end := holdOpen(t, d, "REPEATABLE READ", "SELECT 1 FROM zone_attempt WHERE attempt_id = 'm' FOR UPDATE")
		wantErrs(t, "a batch", store, false, identified(each("known", "other"), "m1"), service.ErrHeld, service.ErrHeld)
		told.want(t, session.LockWaitTimeout)
		if store.hints.stuck.attempts.until.Swap(math.MaxInt64) == 0 { // for as long as the test takes
			t.Error("nobody remembers that the attempts waited")
		}
		wantErrs(t, "a second batch", store, false, identified(each("known", "other", "new"), "m1", "", "z"), service.ErrHeld, nil,
			service.ErrHeld)
		wantErrs(t, "a retry", store, false, identified(each("known", "other"), "a", "y"), nil, nil)
		wantErrs(t, "without an id", store, false, each("known"), nil)
		told.want(t) // nobody has waited again
		wantErrs(t, "another id, which waits", store, true, identified(each("known"), "z"), nil)
		wantErrs(t, "the id, which waits", store, true, identified(each("known"), "m1"), service.ErrBusy)
		end()
		wantErrs(t, "after", store, true, identified(each("known"), "m1"), nil)
		store.hints.stuck.attempts.until.Store(0)
		wantErrs(t, "when that is forgotten", store, false, identified(each("known", "other"), "m2", "m3"), nil, nil)
		wantSettled(t, d, old)
	})
}
