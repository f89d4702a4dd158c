package servicetest

import (
	"fmt"
	"testing"
	"time"

	"velocityd/service"
)

func checkClaims() map[string]claim {
	return map[string]claim{
		"AdmitsExactlyRateThenBlocks":             admitsExactlyRateThenBlocks,
		"AdmitsExactlyRateUnderContention":        admitsExactlyRateUnderContention,
		"WindowSlides":                            windowSlides,
		"WindowEndsExactlyAtItsBoundary":          windowEndsExactlyAtItsBoundary,
		"RetryAfterIsTrue":                        retryAfterIsTrue,
		"ChargesAllBucketsOrNone":                 chargesAllBucketsOrNone,
		"OppositeOrderNeverDeadlocks":             oppositeOrderNeverDeadlocks,
		"FirstUseOfManyKeysAtOnce":                firstUseOfManyKeysAtOnce,
		"BlockedFloodNeitherCountsNorShiftsAhead": blockedFloodNeitherCounts,
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

func windowSlides(t *testing.T, b subject) {
	b.zone(t, 1, 2, time.Hour)
	alice := at(1, "alice")
	for _, step := range []struct {
		age       time.Duration // applied to all earlier txns, before the attempt
		blocked   bool
		remaining int
	}{
		{0, false, 1},
		{30 * time.Minute, false, 0},
		{0, true, 0},
		{20 * time.Minute, true, 0},
		{11 * time.Minute, false, 0}, // the first txn is 61 minutes old
		{0, true, 0},
		{2 * time.Hour, false, 1}, // an idle bucket is as good as new
	} {
		b.Age(t, alice, step.age)
		d := b.check(t, alice)
		if d.Blocked != step.blocked || d.Verdicts[0].Remaining() != step.remaining {
			t.Errorf("step %+v: got blocked %v, remaining %d", step, d.Blocked, d.Verdicts[0].Remaining())
		}
	}
}

func windowEndsExactlyAtItsBoundary(t *testing.T, b subject) {
	// A txn older than the window by any amount is out and one that is younger
	// is in. The margin of a minute is this test's, for slow machines: the very
	// microsecond is a matter of a clock that stands still, which package db
	// borrows from the engine and service's own tests give to Decide.
	const window = time.Hour
	b.zone(t, 1, 1, window)
	for _, step := range []struct {
		key     string
		age     time.Duration
		blocked bool
	}{
		{"at the boundary", window, false},
		{"past it", window + time.Microsecond, false},
		{"inside", window - time.Minute, true},
	} {
		b.check(t, at(1, step.key))
		b.Age(t, at(1, step.key), step.age)
		if d := b.check(t, at(1, step.key)); d.Blocked != step.blocked {
			t.Errorf("%s: blocked = %v, want %v", step.key, d.Blocked, step.blocked)
		}
	}
}

func retryAfterIsTrue(t *testing.T, b subject) {
	b.zone(t, 1, 2, time.Hour)
	alice := at(1, "alice")
	b.check(t, alice)
	b.Age(t, alice, 10*time.Minute)
	b.check(t, alice)
	d := b.check(t, alice)
	free := b.Txns(t, alice)[0].CreatedAt.Add(time.Hour)
	wait := d.RetryAfter()
	if !d.Blocked || wait%time.Second != 0 {
		t.Fatalf("blocked = %v, retry after %v", d.Blocked, wait)
	}
	if then := d.CheckedAt.Add(wait); then.Before(free) || !then.Add(-time.Second).Before(free) {
		t.Errorf("retry after %v from %v, but room comes at %v", wait, d.CheckedAt.Time, free)
	}
	b.Age(t, alice, wait)
	if d := b.check(t, alice); d.Blocked {
		t.Error("blocked after waiting for retry_after")
	}
}

func chargesAllBucketsOrNone(t *testing.T, b subject) {
	b.zone(t, 1, 5, time.Hour)
	b.zone(t, 2, 1, time.Hour)
	user, addr := at(1, "alice"), at(2, "203.0.113.9")
	if d := b.check(t, user, addr); d.Blocked || len(d.Verdicts) != 2 {
		t.Fatalf("first check: %+v", d)
	}
	d := b.check(t, user, addr)
	if !d.Blocked || d.Verdicts[0].Blocked || !d.Verdicts[1].Blocked {
		t.Errorf("want only the address to block, got %+v", d)
	}
	if d.Verdicts[0].Remaining() != 4 || d.Verdicts[0].RetryAfter.Duration != 0 || d.RetryAfter() != d.Verdicts[1].RetryAfter.Duration {
		t.Errorf("the user's bucket was charged or blamed: %+v", d)
	}
	if d.TxnID() != d.Verdicts[0].TxnID || d.Verdicts[0].TxnID == d.Verdicts[1].TxnID {
		t.Errorf("each bucket must have a separate txn: %+v", d)
	}
	if recorded, counted := b.counted(t, user); recorded != 2 || counted != 1 {
		t.Errorf("user: recorded %d, counted %d, want 2 and 1", recorded, counted)
	}
	last := b.Txns(t, user)[1]
	if !last.Blocked || last.WouldBlock || last.Counted {
		t.Errorf("the user's second txn is %+v, want blocked without being exceeded", last)
	}
	if d := b.check(t, addr, user); !d.Blocked || !d.Verdicts[0].Blocked || d.Verdicts[1].Blocked {
		t.Errorf("verdicts do not follow the check's order: %+v", d)
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

func blockedFloodNeitherCounts(t *testing.T, b subject) {
	b.zone(t, 1, 2, time.Hour)
	alice := at(1, "alice")
	flood := make([]service.Check, 300)
	for i := range flood {
		flood[i] = one(1, "alice")
	}
	b.all(t, flood...)
	free := b.Txns(t, alice)[0].CreatedAt.Add(time.Hour)
	d := b.check(t, alice)
	if then := d.CheckedAt.Add(d.RetryAfter()); then.Before(free) || !then.Add(-time.Second).Before(free) {
		t.Errorf("after a flood room comes at %v, but retry_after says %v", free, then)
	}
	if recorded, counted := b.counted(t, alice); recorded != 301 || counted != 2 {
		t.Errorf("recorded %d and counted %d, want 301 and 2", recorded, counted)
	}
}
