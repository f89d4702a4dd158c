package servicetest

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/event"
)

func eventClaims() map[string]claim {
	return map[string]claim{
		"ALockoutIsToldOnceWithItsEndAndItsTxn": lockoutIsTold,
		"LockoutsOfOneCallAreToldEach": script(`
			zone 1 rate=1 window=1m lockout=1h
			zone 2 rate=100 window=1m
			check 2/x 1/alice 1/bob -> pass
			and 1/bob 1/carol id=a as=bob -> block
			and 1/alice id=b as=alice -> block
			and 1/alice -> block
			told 1/alice -> bucket.locked:alice
			told 1/bob -> bucket.locked:bob
			told 1/carol
		`),
		"WhatBeginsNoLockoutIsNotTold": script(`
			zone 1 rate=1 window=1m lockout=1h mode=shadow
			zone 2 rate=1 window=1m
			zone 3 rate=1 window=1m lockout=1h
			zone 4 rate=10 window=1m
			deny 4/denied
			3x check 1/shadow
			3x check 2/full
			3x check 4/denied 3/beside -> denied
			told 1/shadow
			told 2/full
			told 3/beside
		`),
		"AReleaseAndTheLockoutThatItEndsAreTold": script(`
			zone 1 rate=1 window=1m lockout=1h
			check 1/alice -> pass
			check 1/alice as=locking -> block
			release 1/alice
			told 1/alice -> bucket.lock_ended:locking bucket.locked:locking bucket.released
			release 1/alice
			release 1/bob
			told 1/alice -> bucket.lock_ended:locking bucket.locked:locking bucket.released bucket.released
			told 1/bob -> bucket.released
			check 1/alice -> pass
			check 1/alice as=again -> block
			told 1/alice -> bucket.lock_ended:locking bucket.locked:again bucket.locked:locking bucket.released bucket.released
		`),
		"ALockoutWhereFewBlockedAttemptsAreRecordedIsTold": script(`
			zone 1 rate=0 lockout=1m lockout_factor=1 record_blocked=1
			check 1/alice as=first -> lockout
			check 1/alice -> locked
			age 1/alice 2m
			check 1/alice as=second -> lockout
			check 1/alice -> locked
			told 1/alice -> bucket.locked:first bucket.locked:second
		`),
	}
}

// told returns the types of a bucket's events.
func (b subject) told(tb testing.TB, bucket service.Bucket) (types []event.Type) {
	tb.Helper()
	for _, e := range b.EventsOf(tb, bucket) {
		types = append(types, e.Type)
	}
	return types
}

// wantTold wants that these are the types of a bucket's events. Of those that one transaction writes, the order is
// no promise.
func (b subject) wantTold(tb testing.TB, bucket service.Bucket, want ...event.Type) {
	tb.Helper()
	got := b.told(tb, bucket)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		tb.Errorf("the events of %v are %v, want %v", bucket, got, want)
	}
}

func lockoutIsTold(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour})
	alice := at(1, "o'brien \"x\" ä")
	b.check(t, alice)
	b.wantTold(t, alice)
	locking := b.check(t, alice)
	b.check(t, alice)
	b.wantTold(t, alice, event.BucketLocked)
	e := b.EventsOf(t, alice)[0]
	var data struct {
		Until  time.Time      `json:"locked_until"`
		Reason service.Reason `json:"reason"`
	}
	until := locking.CheckedAt.Add(time.Hour)
	if err := json.Unmarshal(e.Data, &data); err != nil || !data.Until.Equal(until) || data.Reason != service.ReasonLockout {
		t.Errorf("the event says %s, %v; the check was at %v", e.Data, err, locking.CheckedAt.Time)
	}
	if e.TxnID != locking.TxnID() || !e.At.Equal(locking.CheckedAt.Time) {
		t.Errorf("the event is of txn %d at %v, want %d at %v", e.TxnID, e.At.Time, locking.TxnID(), locking.CheckedAt.Time)
	}
	b.Age(t, alice, 2*time.Hour)
	b.fill(t, alice)
	if b.wantTold(t, alice, event.BucketLocked, event.BucketLocked); t.Failed() {
		t.Log("the second lockout began before anybody noted the end of the first one")
	}
}
