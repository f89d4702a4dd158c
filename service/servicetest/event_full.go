package servicetest

import (
	"encoding/json"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/event"
)

// fullUntil wants that the last event of a bucket says that a decision filled it, and returns until when it is full.
func (b subject) fullUntil(tb testing.TB, bucket service.Bucket, by service.Decision) time.Time {
	tb.Helper()
	var data struct {
		Until time.Time `json:"full_until"`
	}
	events := b.EventsOf(tb, bucket)
	if len(events) == 0 {
		tb.Fatalf("%v has no event", bucket)
	}
	e := events[len(events)-1]
	txnID := uint64(0)
	for _, v := range by.Verdicts {
		if v.Bucket == bucket {
			txnID = v.TxnID
		}
	}
	if err := json.Unmarshal(e.Data, &data); err != nil || e.Type != event.BucketFull || e.TxnID != txnID || !e.At.Equal(by.CheckedAt) {
		tb.Errorf("the event of %v is %s of txn %d at %v, %s, %v; want txn %d at %v", bucket, e.Type, e.TxnID, e.At, e.Data, err, txnID, by.CheckedAt)
	}
	return data.Until
}

func fullIsTold(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 2, Window: time.Minute, FullEvents: true})
	alice := at(1, "o'brien \"x\" ä")
	first := b.check(t, alice)
	b.wantTold(t, alice)
	filling := b.check(t, alice)
	b.check(t, alice) // blocked
	b.wantTold(t, alice, event.BucketFull)
	if until := b.fullUntil(t, alice, filling); !until.Equal(first.CheckedAt.Add(time.Minute)) {
		t.Errorf("full until %v, and the first attempt was at %v", until, first.CheckedAt)
	}
	b.Age(t, alice, time.Minute) // one place opens, or both
	b.fill(t, alice)
	b.wantTold(t, alice, event.BucketFull, event.BucketFull)
	b.release(t, alice)
	b.fill(t, alice)
	b.wantTold(t, alice, event.BucketFull, event.BucketFull, event.BucketReleased, event.BucketFull)
}

func fullBucketsOfACallAreTold(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour, FullEvents: true})
	b.zone(t, 2, 100, time.Minute)
	alice, bob, carol := at(1, "alice"), at(1, "bob"), at(1, "carol")
	decisions := b.all(t,
		service.Check{Buckets: []service.Bucket{at(2, "x"), alice, bob}}, service.Check{Buckets: []service.Bucket{alice, carol}, AttemptID: "a"},
		service.Check{Buckets: []service.Bucket{carol}, AttemptID: "b"},
	)
	for bucket, by := range map[service.Bucket]service.Decision{bob: decisions[0], carol: decisions[2]} {
		b.wantTold(t, bucket, event.BucketFull)
		b.fullUntil(t, bucket, by)
	}
	if told := b.told(t, alice); len(told) != 2 || told[0] != event.BucketFull || told[1] != event.BucketLocked {
		t.Errorf("of alice are told %v", told)
	}
	b.all(t, service.Check{Buckets: []service.Bucket{carol}, AttemptID: "b"}) // the same answer again
	b.wantTold(t, carol, event.BucketFull)
	b.wantTold(t, at(2, "x"))
}

func noFullBucketIsNotTold(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute})
	b.set(t, service.Zone{ID: 2, Rate: 0, Window: time.Minute, FullEvents: true})
	b.set(t, service.Zone{ID: 3, Rate: 1, Window: time.Minute, Mode: service.ModeOff, FullEvents: true})
	b.set(t, service.Zone{ID: 4, Rate: 3, Window: time.Minute, Concurrent: 1, FullEvents: true})
	b.set(t, service.Zone{ID: 5, Rate: 1, Window: time.Minute, FullEvents: true})
	for range 2 {
		b.check(t, at(1, "plain"))
		b.check(t, at(2, "closed"))
		b.check(t, at(3, "off"))
		b.check(t, at(4, "busy"))
		b.check(t, at(2, "closed"), at(5, "beside"))
	}
	for _, bucket := range []service.Bucket{at(1, "plain"), at(2, "closed"), at(3, "off"), at(4, "busy"), at(5, "beside")} {
		b.wantTold(t, bucket)
	}
	b.set(t, service.Zone{ID: 1, Rate: 2, Window: time.Minute, FullEvents: true})
	b.check(t, at(1, "plain"))
	b.wantTold(t, at(1, "plain"), event.BucketFull)
	b.set(t, service.Zone{ID: 1, Rate: 3, Window: time.Minute})
	b.check(t, at(1, "plain"))
	b.wantTold(t, at(1, "plain"), event.BucketFull)
}

func fullIsToldByTheLimit(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, FullEvents: true})
	b.set(t, service.Zone{ID: 2, Rate: 1, Window: time.Minute, Mode: service.ModeShadow, FullEvents: true})
	b.set(t, service.Zone{ID: 3, Rate: 1, Calendar: service.Calendar{Period: service.PeriodDay}, FullEvents: true})
	b.SetOverride(t, service.Override{
		ZoneID: 1, Key: "wide", Action: service.OverrideLimit, Rate: 2, Window: time.Hour, Reason: "exercise", CreatedBy: "exercise",
	})
	wide, watched, daily := at(1, "wide"), at(2, "watched"), at(3, "daily")
	before := len(b.told(t, wide)) // the override may be told
	first := b.check(t, wide)
	if told := b.told(t, wide); len(told) != before {
		t.Errorf("by the zone's rate are told %v", told)
	}
	if until := b.fullUntil(t, wide, b.check(t, wide)); !until.Equal(first.CheckedAt.Add(time.Hour)) {
		t.Errorf("by the override full until %v, and the first attempt was at %v", until, first.CheckedAt)
	}
	filling := b.check(t, watched)
	b.check(t, watched)
	b.wantTold(t, watched, event.BucketFull)
	b.fullUntil(t, watched, filling)
	filling = b.check(t, daily)
	if until := b.fullUntil(t, daily, filling); !until.Equal(filling.CheckedAt.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)) {
		t.Errorf("full until %v, and the attempt was at %v", until, filling.CheckedAt)
	}
}
