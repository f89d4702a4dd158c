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
		"LockoutsOfOneCallAreToldEach":          lockoutsOfACallAreTold,
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
		"AReleaseAndTheLockoutThatItEndsAreTold":           releaseIsTold,
		"ALockoutWhereFewBlockedAttemptsAreRecordedIsTold": lockoutInASeriesIsTold,
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

func lockoutsOfACallAreTold(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour})
	b.zone(t, 2, 100, time.Minute)
	alice, bob, carol := at(1, "alice"), at(1, "bob"), at(1, "carol")
	decisions := b.all(t,
		service.Check{Buckets: []service.Bucket{at(2, "x"), alice, bob}}, service.Check{Buckets: []service.Bucket{bob, carol}, AttemptID: "a"},
		service.Check{Buckets: []service.Bucket{alice}, AttemptID: "b"}, service.Check{Buckets: []service.Bucket{alice}},
	)
	b.wantTold(t, alice, event.BucketLocked)
	b.wantTold(t, bob, event.BucketLocked)
	b.wantTold(t, carol)
	for bucket, want := range map[service.Bucket]uint64{alice: decisions[2].TxnID(), bob: decisions[1].Verdicts[0].TxnID} {
		if events := b.EventsOf(t, bucket); len(events) == 1 && events[0].TxnID != want {
			t.Errorf("the event of %v names txn %d, want %d", bucket, events[0].TxnID, want)
		}
	}
	for _, d := range decisions {
		for _, v := range d.Verdicts {
			if txns := b.Txns(t, v.Bucket); !slices.ContainsFunc(txns, func(txn service.Txn) bool { return txn.ID == v.TxnID }) {
				t.Errorf("%v has no txn %d, as the answer says", v.Bucket, v.TxnID)
			}
		}
	}
}

func releaseIsTold(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour})
	alice, bob := at(1, "alice"), at(1, "bob")
	locking := b.fill(t, alice)
	b.release(t, alice)
	b.wantTold(t, alice, event.BucketLocked, event.BucketReleased, event.BucketLockEnded)
	for _, e := range b.EventsOf(t, alice) {
		var data struct{ Cause string }
		if e.Type == event.BucketLockEnded && (json.Unmarshal(e.Data, &data) != nil || data.Cause != "release" || e.TxnID != locking.TxnID()) {
			t.Errorf("the end of the lockout says txn %d, %s", e.TxnID, e.Data)
		}
	}
	b.release(t, alice)
	b.release(t, bob)
	b.wantTold(t, alice, event.BucketLocked, event.BucketReleased, event.BucketLockEnded, event.BucketReleased)
	b.wantTold(t, bob, event.BucketReleased)
	b.fill(t, alice)
	if got := b.told(t, alice); got[len(got)-1] != event.BucketLocked {
		t.Errorf("locked again, and the events are %v", got)
	}
}

func lockoutInASeriesIsTold(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 0, Window: time.Hour, Lockout: time.Minute, LockoutFactor: 1, RecordBlocked: 1})
	alice := at(1, "alice")
	var locking []uint64
	for range 2 {
		locking = append(locking, b.check(t, alice).TxnID())
		b.check(t, alice)
		b.Age(t, alice, 2*time.Minute)
	}
	b.wantTold(t, alice, event.BucketLocked, event.BucketLocked)
	for i, e := range b.EventsOf(t, alice) {
		if i < len(locking) && e.TxnID != locking[i] {
			t.Errorf("lockout %d names txn %d, want %d", i, e.TxnID, locking[i])
		}
	}
}
