package db

import (
	"database/sql"
	"errors"
	"math"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/service"
)

// lockGap locks the gap in which the row of a bucket that has none would be, as a locking read
// does under the engines' default isolation, until end.
func lockGap(t *testing.T, d *dbtest.Database, missing service.Bucket) (end func()) {
	t.Helper()
	tx, err := d.SQL.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	dbtest.Exec(t, tx, "SELECT 1 FROM zone_bucket_lock WHERE zone_id = ? AND bucket_key = ? FOR UPDATE", missing.ZoneID, missing.Key)
	return func() { _ = tx.Rollback() }
}

// TestALockedGapHarmsNewBucketsOnly asks of an instance that meets the gap by a batch, and of one
// that meets it by a lone check. Each may wait once.
func TestALockedGapHarmsNewBucketsOnly(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		old := zone(1, 100, time.Hour)
		d := engine.Database(t, old)
		var told events
		ask := func(store *Store, waits bool, keys ...string) []error {
			t.Helper()
			checks := make([]service.Check, len(keys))
			for i, key := range keys {
				checks[i] = service.Check{Buckets: []service.Bucket{user(key)}, NoWait: !waits}
			}
			decisions, err := store.CheckAll(t.Context(), checks)
			if err != nil {
				return []error{err}
			}
			errs := make([]error, len(decisions))
			for i := range decisions {
				errs[i] = decisions[i].Err
			}
			return errs
		}
		want := func(what string, got []error, kinds ...error) {
			t.Helper()
			for i, kind := range kinds {
				if !errors.Is(got[i], kind) || kind == nil && got[i] != nil {
					t.Errorf("%s: check %d got %v, want %v", what, i, got[i], kind)
				}
			}
		}
		byBatch := connect(t, d, Options{LockWait: time.Second, Observe: told.add})
		byCall := connect(t, d, Options{LockWait: time.Second, Observe: told.add})
		for _, store := range []*Store{byBatch, byCall} {
			want("before", ask(store, false, "known", "other"), nil, nil)
		}
		end := lockGap(t, d, user("missing"))
		want("a batch", ask(byBatch, false, "known", "missing", "other"), nil, service.ErrHeld, nil)
		want("a lone check", ask(byCall, false, "missing"), service.ErrHeld)
		told.want(t, LockWaitTimeout, LockWaitTimeout)
		for _, store := range []*Store{byBatch, byCall} {
			if store.hints.stuckUntil.Swap(math.MaxInt64) == 0 { // for as long as the test takes
				t.Error("nobody remembers that the making waited")
			}
		}
		for _, store := range []*Store{byBatch, byCall} {
			want("a second batch", ask(store, false, "mister", "known"), service.ErrHeld, nil)
			want("another new bucket", ask(store, false, "missed"), service.ErrHeld)
			want("the same", ask(store, false, "missing"), service.ErrHeld)
			want("a known bucket", ask(store, false, "known"), nil)
		}
		told.want(t) // nobody has waited again
		want("a batch that waits", ask(byBatch, true, "missing", "known"), service.ErrBusy, nil)
		want("a lone check that waits", ask(byCall, true, "missing"), service.ErrBusy)
		end()
		for _, store := range []*Store{byBatch, byCall} {
			want("after", ask(store, true, "missing"), nil)
			want("after, in a batch", ask(store, true, "missing", "mister"), nil, nil)
		}
		for _, store := range []*Store{byBatch, byCall} {
			store.hints.stuckUntil.Store(0)
			want("when that is forgotten", ask(store, false, "known", "new"), nil, nil)
		}
		wantSettled(t, d, old)
	})
}
