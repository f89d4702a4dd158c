package servicetest

import (
	"fmt"
	"testing"
	"time"

	"velocityd/service"
)

func checkClaims() map[string]claim {
	return map[string]claim{
		"AdmitsExactlyRateThenBlocks":      admitsExactlyRateThenBlocks,
		"AdmitsExactlyRateUnderContention": admitsExactlyRateUnderContention,
		"WindowSlides": script(`
			zone 1 rate=2
			check 1/alice -> pass left=1
			age 1/alice 30m
			check 1/alice -> pass left=0
			check 1/alice -> block left=0
			age 1/alice 20m
			check 1/alice -> block left=0
			age 1/alice 11m // the first txn is 61 minutes old
			check 1/alice -> pass left=0
			check 1/alice -> block left=0
			age 1/alice 2h // an idle bucket is as good as new
			check 1/alice -> pass left=1
		`),
		"WindowEndsExactlyAtItsBoundary": script(`
			// A txn older than the window by any amount is out and one that is younger is in. The margin of a minute is this
			// test's, for slow machines: the very microsecond is a matter of a clock that stands still, which package db borrows
			// from the engine and service's own tests give to Decide.
			zone 1 rate=1
			check 1/boundary -> pass
			age 1/boundary 1h
			check 1/boundary -> pass
			check 1/past -> pass
			age 1/past 1h0m0.000001s
			check 1/past -> pass
			check 1/inside -> pass
			age 1/inside 59m
			check 1/inside -> block
		`),
		"RetryAfterIsTrue": script(`
			zone 1 rate=2
			check 1/alice as=first -> pass
			age 1/alice 10m
			check 1/alice -> pass
			check 1/alice -> block ends=first+50m wait=50m-1m
			age 1/alice 50m
			check 1/alice -> pass
		`),
		"ChargesAllBucketsOrNone": script(`
			zone 1 rate=5
			zone 2 rate=1
			check 1/alice 2/203.0.113.9 -> pass
			check 1/alice 2/203.0.113.9 -> block elsewhere left=4 retry=0s counted=no | full retry=1h-1m
			count 1/alice -> 1 of 2
			check 2/203.0.113.9 1/alice -> block full | elsewhere
		`),
		"OppositeOrderNeverDeadlocks": oppositeOrderNeverDeadlocks,
		"FirstUseOfManyKeysAtOnce":    firstUseOfManyKeysAtOnce,
		"BlockedFloodNeitherCountsNorShiftsAhead": script(`
			zone 1 rate=2
			check 1/alice as=first -> pass
			check 1/alice -> pass
			300x check 1/alice -> block ends=first+1h
			count 1/alice -> 2 of 302
		`),
	}
}

func admitsExactlyRateThenBlocks(t *testing.T, b subject) {
	b.zone(t, 1, 3, time.Hour)
	var last uint64
	for attempt := 1; attempt <= 5; attempt++ {
		before := time.Now().Add(-time.Minute)
		d := b.check(t, at(1, "alice"))
		v := d.Verdicts[0]
		if want := attempt > 3; d.Blocked != want || v.Blocked != want {
			t.Errorf("attempt %d: blocked = %v, verdict %v, want %v", attempt, d.Blocked, v.Blocked, want)
		}
		if want := max(0, 3-attempt); v.Remaining() != want {
			t.Errorf("attempt %d: remaining = %d, want %d", attempt, v.Remaining(), want)
		}
		if v.Rate != 3 || v.Window.Duration != time.Hour || v.Bucket != at(1, "alice") {
			t.Errorf("attempt %d: verdict speaks of %+v", attempt, v)
		}
		if d.TxnID() <= last {
			t.Errorf("attempt %d: txn id %d does not follow %d", attempt, d.TxnID(), last)
		}
		last = d.TxnID()
		if d.CheckedAt.Location() != time.UTC || d.CheckedAt.Before(before) || d.CheckedAt.After(before.Add(2*time.Minute)) {
			t.Errorf("attempt %d: checked at %v, not now in UTC", attempt, d.CheckedAt.Time)
		}
	}
	txns := b.Txns(t, at(1, "alice"))
	if len(txns) != 5 {
		t.Fatalf("recorded %d txns, want all 5", len(txns))
	}
	for i, txn := range txns {
		if blocked := i >= 3; txn.Blocked != blocked || txn.WouldBlock != blocked || txn.Counted == blocked {
			t.Errorf("txn %d of 5 is %+v", i+1, txn)
		}
	}
}

func admitsExactlyRateUnderContention(t *testing.T, b subject) {
	const callers, rate = 200, 7
	b.zone(t, 1, rate, time.Hour)
	decisions := b.together(t, callers, func(int) service.Check { return one(1, "hot") })
	ids := map[uint64]bool{}
	for _, d := range decisions {
		ids[d.TxnID()] = true
	}
	if allowed := allowedOf(decisions); allowed != rate || len(ids) != callers {
		t.Errorf("allowed %d with %d distinct txn ids, want %d and %d", allowed, len(ids), rate, callers)
	}
	if recorded, counted := b.counted(t, at(1, "hot")); recorded != callers || counted != rate {
		t.Errorf("recorded %d and counted %d, want %d and %d", recorded, counted, callers, rate)
	}
}

func oppositeOrderNeverDeadlocks(t *testing.T, b subject) {
	const callers = 100
	b.zone(t, 1, 30, time.Hour)
	b.zone(t, 2, 40, time.Hour)
	x, y := at(1, "x"), at(2, "y")
	decisions := b.together(t, callers, func(i int) service.Check {
		if i%2 == 0 {
			return service.Check{Buckets: []service.Bucket{x, y}}
		}
		return service.Check{Buckets: []service.Bucket{y, x}}
	})
	allowed := allowedOf(decisions)
	_, countedX := b.counted(t, x)
	_, countedY := b.counted(t, y)
	if allowed != 30 || countedX != 30 || countedY != 30 {
		t.Errorf("allowed %d, counted %d and %d, want 30 each", allowed, countedX, countedY)
	}
}

func firstUseOfManyKeysAtOnce(t *testing.T, b subject) {
	const callers = 500
	b.zone(t, 1, 1, time.Hour)
	for _, d := range b.together(t, callers, func(i int) service.Check { return one(1, fmt.Sprint("new-", i)) }) {
		if d.Blocked {
			t.Errorf("first use blocked: %+v", d)
		}
	}
}
