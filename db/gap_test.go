package db

import (
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// wantErrs asks for checks, as callers do that share a call or, if they wait, as the lane for held
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
func twoInstances(t *testing.T, d *enginetest.Database, told *events) (byBatch, byCall *Store) {
	t.Helper()
	options := session.Options{LockWait: time.Second, Observe: told.add}
	return connect(t, d, options), connect(t, d, options)
}

// stayStuck has a store leave alone for as long as a test takes the buckets that it has waited for.
func stayStuck(store *Store) {
	for bucket := range store.cache.timeouts.until {
		store.cache.timeouts.until[bucket] = time.Now().Add(time.Hour)
	}
}

// TestALockedGapHarmsNewBucketsOnly has a foreign session lock the gap for a new lock row.
func TestALockedGapHarmsNewBucketsOnly(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		old := zone(1, 100, time.Hour)
		d := engine.Database(t, old)
		var told events
		byBatch, byCall := twoInstances(t, d, &told)
		for _, store := range []*Store{byBatch, byCall} {
			wantErrs(t, "before", store, false, each("known", "other"), nil, nil)
		}
		end := holdOpen(t, d, "REPEATABLE READ",
			"SELECT 1 FROM zone_bucket_lock WHERE zone_id = 1 AND bucket_key = 'missing' FOR UPDATE")
		wantErrs(t, "a batch", byBatch, false, each("known", "missing", "other"), nil, service.ErrHeld, nil)
		wantErrs(t, "a lone check", byCall, false, each("missing"), service.ErrHeld)
		told.want(t, session.LockWaitTimeout, session.LockWaitTimeout)
		for _, store := range []*Store{byBatch, byCall} {
			if store.cache.timeouts.making.until.Swap(math.MaxInt64) == 0 { // for as long as the test takes
				t.Error("the store did not remember that the making waited")
			}
		}
		for _, store := range []*Store{byBatch, byCall} {
			wantErrs(t, "a second batch", store, false, each("mister", "known"), service.ErrHeld, nil)
			wantErrs(t, "another new bucket", store, false, each("missed"), service.ErrHeld)
			wantErrs(t, "the same", store, false, each("missing"), service.ErrHeld)
			wantErrs(t, "a known bucket", store, false, each("known"), nil)
		}
		told.want(t) // no batch has waited again
		wantErrs(t, "a batch that waits", byBatch, true, each("missing", "known"), service.ErrBusy, nil)
		wantErrs(t, "a lone check that waits", byCall, true, each("missing"), service.ErrBusy)
		end()
		for _, store := range []*Store{byBatch, byCall} {
			wantErrs(t, "after", store, true, each("missing"), nil)
			wantErrs(t, "after, in a batch", store, true, each("missing", "mister"), nil, nil)
		}
		for _, store := range []*Store{byBatch, byCall} {
			store.cache.timeouts.making.until.Store(0)
			wantErrs(t, "when that is forgotten", store, false, each("known", "new"), nil, nil)
		}
		wantSettled(t, d, old)
	})
}

// TestLockedHistoryHarmsItsBucketOnly has a foreign session lock the txns of one bucket, and with
// them the gap for its next one, as a session does that deletes them and does not commit.
func TestLockedHistoryHarmsItsBucketOnly(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		old := zone(1, 100, time.Hour)
		d := engine.Database(t, old)
		var told events
		byBatch, byCall := twoInstances(t, d, &told)
		for _, store := range []*Store{byBatch, byCall} {
			// The gap behind the txns of deleted belongs to the next bucket, and no check asks for that.
			wantErrs(t, "before", store, false, each("deleted", "deletee", "known", "other"), nil, nil, nil, nil)
		}
		end := holdOpen(t, d, "REPEATABLE READ",
			"SELECT 1 FROM zone_txn FORCE INDEX (zone_txn_window) WHERE zone_id = 1 AND bucket_key = 'deleted' AND counted = "+
				"TRUE FOR UPDATE")
		wantErrs(t, "a batch", byBatch, false, each("known", "deleted", "other"), service.ErrHeld, service.ErrHeld,
			service.ErrHeld)
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
		told.want(t) // no batch has waited again
		wantErrs(t, "a check that waits", byBatch, true, each("deleted"), service.ErrBusy)
		wantErrs(t, "a check that waits, in two packets", byCall, true, identified(each("deleted"), "b"), service.ErrBusy)
		told.want(t, session.LockWaitTimeout, session.LockWaitTimeout)
		restarted := connect(t, d, session.Options{LockWait: time.Second, Observe: told.add})
		wantErrs(t, "a lone check of an instance that has seen nothing", restarted, false, each("deleted"), service.ErrHeld)
		told.want(t, session.LockWaitTimeout)
		if restarted.cache.timeouts.making.lasts() {
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
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		old := zone(1, 100, time.Hour)
		d := engine.Database(t, old)
		var told events
		store := connect(t, d, session.Options{LockWait: time.Second, Observe: told.add})
		wantErrs(t, "before", store, false, identified(each("known", "other"), "a", "y"), nil, nil)
		end := holdOpen(t, d, "REPEATABLE READ", "SELECT 1 FROM zone_attempt WHERE attempt_id = 'm' FOR UPDATE")
		wantErrs(t, "a batch", store, false, identified(each("known", "other"), "m1"), service.ErrHeld, service.ErrHeld)
		told.want(t, session.LockWaitTimeout)
		if store.cache.timeouts.attempts.until.Swap(math.MaxInt64) == 0 { // for as long as the test takes
			t.Error("the store did not remember that the attempts waited")
		}
		wantErrs(t, "a second batch", store, false, identified(each("known", "other", "new"), "m1", "", "z"), service.ErrHeld,
			nil,
			service.ErrHeld)
		wantErrs(t, "a retry", store, false, identified(each("known", "other"), "a", "y"), nil, nil)
		wantErrs(t, "without an id", store, false, each("known"), nil)
		told.want(t) // no batch has waited again
		wantErrs(t, "another id, which waits", store, true, identified(each("known"), "z"), nil)
		wantErrs(t, "the id, which waits", store, true, identified(each("known"), "m1"), service.ErrBusy)
		end()
		wantErrs(t, "after", store, true, identified(each("known"), "m1"), nil)
		store.cache.timeouts.attempts.until.Store(0)
		wantErrs(t, "when that is forgotten", store, false, identified(each("known", "other"), "m2", "m3"), nil, nil)
		wantSettled(t, d, old)
	})
}

// events are those that a store has told.
type events struct {
	mu   sync.Mutex
	list []session.Event
}

func (e *events) add(event session.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, event)
}

func (e *events) want(t *testing.T, list ...session.Event) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.list, list) {
		t.Errorf("told of %v, want %v", e.list, list)
	}
	e.list = nil
}

func TestDeadlocksLockWaitsAndRetriesAreTold(t *testing.T) {
	t.Parallel()
	store, mock := mocked(t)
	var told events
	store.observe = told.add
	mock.ExpectQuery("CALL check_velocity").WillReturnError(number(session.NumberLockWait))
	mock.ExpectQuery("CALL check_velocity").WillReturnError(number(1213))
	mock.ExpectQuery("CALL check_velocity").WillReturnError(number(1020))
	mock.ExpectQuery("CALL check_velocity").WillReturnError(number(session.NumberUnknown))
	decide(t, store, check(user("alice")))
	told.want(t, session.LockWaitTimeout, session.Retry, session.Deadlock, session.Retry, session.Deadlock, session.Retry)
}

func TestTheCensusCountsWhatIsInForce(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		locking := zone(1, 1, time.Hour)
		locking.Lockout = time.Hour
		d := f.database(t, locking, zone(2, 1, time.Hour), zone(3, 1, time.Hour))
		// Zone 2 has no lockouts, so that of x does not hold.
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_lockout (zone_id, bucket_key, locked_at, locked_until, txn_id) VALUES "+
			"(1, 'alice', '2026-01-01', '2199-01-01', 1), (1, 'bob', '2026-01-01', UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, 2), "+
			"(1, 'carol', '2026-01-01', UTC_TIMESTAMP(6), 3), (2, 'x', '2026-01-01', '2199-01-01', 4)")
		for key, o := range map[string]service.Override{
			"a": {Action: service.OverrideDeny},
			"b": {Action: service.OverrideDeny, ExpiresAt: service.At(time.Now().Add(time.Hour))},
			"c": {Action: service.OverrideDeny, ExpiresAt: service.At(time.Now().Add(-time.Hour))},
			"d": {Action: service.OverrideAllow},
		} {
			o.ZoneID, o.Key = 2, key
			d.SetOverride(t, o)
		}
		if f.engine != nil {
			d = d.ServiceAccount(t)
		}
		census, err := f.connect(t, d, session.Options{}).Records.Census(t.Context())
		if err != nil || len(census) != 3 {
			t.Fatalf("got %v, %v", census, err)
		}
		if census[0].ZoneID != 1 || census[0].Locked != 2 || census[1].Locked != 0 ||
			len(census[0].Overrides)+len(census[2].Overrides) > 0 ||
			census[1].Overrides[service.OverrideDeny] != 2 || census[1].Overrides[service.OverrideAllow] != 1 {
			t.Errorf("got %+v", census)
		}
	})
}
