package db

import (
	"slices"
	"sync"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
)

// events is what a store has told.
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

func TestADeadlockALockWaitAndTheirRetriesAreTold(t *testing.T) {
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
		dbtest.Exec(t, d.SQL, "INSERT INTO zone_lockout (zone_id, bucket_key, locked_at, locked_until, txn_id) VALUES "+
			"(1, 'alice', '2026-01-01', '2199-01-01', 1), (1, 'bob', '2026-01-01', UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, 2), "+
			"(1, 'carol', '2026-01-01', UTC_TIMESTAMP(6), 3), (2, 'x', '2026-01-01', '2199-01-01', 4)")
		for key, o := range map[string]service.Override{
			"a": {Action: service.OverrideDeny}, "b": {Action: service.OverrideDeny, ExpiresAt: service.At(time.Now().Add(time.Hour))},
			"c": {Action: service.OverrideDeny, ExpiresAt: service.At(time.Now().Add(-time.Hour))}, "d": {Action: service.OverrideAllow},
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
		if census[0].ZoneID != 1 || census[0].Locked != 2 || census[1].Locked != 0 || len(census[0].Overrides)+len(census[2].Overrides) > 0 ||
			census[1].Overrides[service.OverrideDeny] != 2 || census[1].Overrides[service.OverrideAllow] != 1 {
			t.Errorf("got %+v", census)
		}
	})
}
