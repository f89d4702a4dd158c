package servicetest

import (
	"maps"
	"slices"
	"testing"
	"time"

	"velocityd/service"
)

func reasonClaims() map[string]claim {
	return map[string]claim{
		"EveryVerdictAndItsTxnTellWhy":            verdictsTellWhy,
		"ABucketWithRoomIsBlockedElsewhere":       blockedElsewhere,
		"FiguresAreThoseOfALimitThatDecides":      figuresOfALimit,
		"ADenialNamesItsOverride":                 denialNamesItsOverride,
		"AShadowTellsTheReasonsOfAnEnforcedZone":  shadowTellsReasons,
		"ARetryIsToldTheReasonOfTheFirstAttempt":  retryIsToldTheReason,
		"APeekTellsTheReasonThatAnAttemptMeets":   peekTellsTheReason,
		"TheReasonsOfABatchAreThoseOfItsSequence": reasonsOfABatch,
	}
}

// wantReasons wants the verdicts of a decision, and their newest txns, to have these reasons.
func (b subject) wantReasons(tb testing.TB, d service.Decision, want ...service.Reason) {
	tb.Helper()
	for i, v := range d.Verdicts {
		txns := b.Txns(tb, v.Bucket)
		txn := txns[len(txns)-1]
		if v.Reason != want[i] || txn.Reason != want[i] || txn.OverrideID != v.OverrideID ||
			(v.OverrideID != 0) != (v.Reason == service.ReasonDenied) {
			tb.Errorf("bucket %d: the verdict is %+v and its txn %+v, want reason %q", i, v, txn, want[i])
		}
	}
}

func verdictsTellWhy(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour})
	alice := at(1, "alice")
	for _, want := range []service.Reason{"", service.ReasonLockout, service.ReasonLocked, service.ReasonLocked} {
		b.wantReasons(t, b.check(t, alice), want)
	}
	b.Age(t, alice, 10*time.Minute) // locked, with an empty window
	b.wantReasons(t, b.check(t, alice), service.ReasonLocked)
	b.Age(t, alice, time.Hour)
	b.wantReasons(t, b.check(t, alice), "")

	b.zone(t, 2, 1, time.Minute)
	b.zone(t, 3, 0, time.Minute)
	b.wantReasons(t, b.check(t, at(2, "alice")), "")
	b.wantReasons(t, b.check(t, at(2, "alice"), at(3, "alice")), service.ReasonFull, service.ReasonFull)
	b.SetOverride(t, limit(2, "bob", 0, time.Hour))
	b.wantReasons(t, b.check(t, at(2, "bob")), service.ReasonFull)
	b.SetOverride(t, allow(2, "alice"))
	b.wantReasons(t, b.check(t, at(2, "alice")), "")
	b.set(t, service.Zone{ID: 3, Rate: 0, Window: time.Minute, Mode: service.ModeOff})
	b.wantReasons(t, b.check(t, at(3, "alice")), "")
}

func blockedElsewhere(t *testing.T, b subject) {
	b.zone(t, 1, 9, time.Hour)
	b.zone(t, 2, 1, time.Hour)
	b.set(t, service.Zone{ID: 3, Rate: 9, Window: time.Hour, Mode: service.ModeOff})
	b.SetOverride(t, allow(1, "friend"))
	b.check(t, at(2, "x"))
	b.wantReasons(t, b.check(t, at(1, "alice"), at(2, "x"), at(3, "y"), at(1, "friend")),
		service.ReasonElsewhere, service.ReasonFull, service.ReasonElsewhere, service.ReasonElsewhere)
}

// figuresOfALimit is about a bucket that is full and locked: those whom no limit holds are not told
// that nothing remains.
func figuresOfALimit(t *testing.T, b subject) {
	locking := service.Zone{ID: 1, Rate: 1, Window: time.Hour, Lockout: time.Hour}
	b.set(t, locking)
	b.zone(t, 2, 5, time.Hour)
	alice, other := at(1, "alice"), at(2, "alice")
	b.fill(t, alice)
	wantNone := func(when string, blocked bool) {
		t.Helper()
		first := b.attempt(t, when, alice, other)
		for _, d := range []service.Decision{b.check(t, alice), first, b.attempt(t, when, alice, other)} {
			if v := d.Verdicts[0]; !v.Unmetered || v.Velocity != 0 || v.Remaining() != 0 || v.Rate != 1 || v.Window.Duration != time.Hour ||
				d.Blocked != blocked {
				t.Errorf("%s: %+v", when, d)
			}
		}
		if v := first.Verdicts[1]; v.Unmetered || v.Velocity == 0 && !blocked {
			t.Errorf("%s: the limit of the other bucket decided, but: %+v", when, v)
		}
		if peek := b.peek(t, alice); !peek.Unmetered || peek.Velocity+peek.Remaining != 0 || !peek.LockedUntil.IsZero() ||
			(peek.RetryAfter.Duration > 0) != blocked {
			t.Errorf("%s: %+v", when, peek)
		}
	}
	b.SetOverride(t, allow(1, "alice"))
	wantNone("allowed", false)
	b.SetOverride(t, deny(1, "alice"))
	wantNone("denied", true)
	b.DeleteOverrides(t, 1)
	off := locking
	off.Mode = service.ModeOff
	b.set(t, off)
	wantNone("off", false)
	b.set(t, locking)
	b.SetOverride(t, limit(1, "alice", 1, time.Hour))
	if v := b.check(t, alice).Verdicts[0]; v.Unmetered || v.Velocity != 1 || v.Reason != service.ReasonLocked {
		t.Errorf("limited by an override: %+v", v)
	}
}

func denialNamesItsOverride(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 0, Window: time.Hour, Lockout: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	addr := at(1, "203.0.113.9")
	b.wantReasons(t, b.check(t, addr), service.ReasonLockout)
	b.SetOverride(t, within("203.0.113.0/24", deny(1, "")))
	network := b.check(t, addr)
	b.wantReasons(t, network, service.ReasonDenied) // a denial comes before a lockout
	b.SetOverride(t, deny(1, addr.Key))
	exact := b.check(t, addr)
	b.wantReasons(t, exact, service.ReasonDenied)
	if got, want := exact.Verdicts[0].OverrideID, b.peek(t, addr).Override.ID; got != want || network.Verdicts[0].OverrideID == got {
		t.Errorf("denied by override %d, want %d and not that of the network", got, want)
	}
	b.DeleteOverrides(t, 1)
	b.wantReasons(t, b.check(t, addr), service.ReasonLocked)
}

func shadowTellsReasons(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour, Mode: service.ModeShadow})
	b.zone(t, 2, 0, time.Hour)
	alice := at(1, "alice")
	for _, want := range []service.Reason{"", service.ReasonLockout, service.ReasonLocked} {
		b.wantReasons(t, b.check(t, alice), want)
	}
	// The bucket's reason stays, whichever bucket blocks the attempt.
	b.wantReasons(t, b.check(t, alice, at(2, "x"), at(1, "bob")), service.ReasonLocked, service.ReasonFull, service.ReasonElsewhere)
	b.SetOverride(t, deny(1, "bob"))
	b.wantReasons(t, b.check(t, at(1, "bob")), service.ReasonDenied)
}

func retryIsToldTheReason(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 0, Window: time.Minute, Lockout: time.Hour})
	b.zone(t, 2, 5, time.Minute)
	b.zone(t, 3, 5, time.Minute)
	b.SetOverride(t, deny(3, "x"))
	alice, other, denied := at(1, "alice"), at(2, "alice"), at(3, "x")
	for id, want := range map[string]map[service.Bucket]service.Reason{
		"denied": {denied: service.ReasonDenied, other: service.ReasonElsewhere},
		"locked": {alice: service.ReasonLockout, other: service.ReasonElsewhere},
	} {
		buckets := slices.SortedFunc(maps.Keys(want), service.Bucket.Compare)
		first := b.attempt(t, id, buckets...)
		again := b.attempt(t, id, buckets...)
		for i, v := range first.Verdicts {
			if v.Reason != want[v.Bucket] || again.Verdicts[i] != v {
				t.Errorf("the attempt is answered %+v, and the retry %+v; want %q", v, again.Verdicts[i], want[v.Bucket])
			}
		}
	}
}

func peekTellsTheReason(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour})
	alice := at(1, "alice")
	for _, want := range []service.Reason{"", service.ReasonLockout, service.ReasonLocked} {
		if got := b.peek(t, alice).Reason; got != want {
			t.Errorf("the peek tells %q, want %q", got, want)
		}
		b.wantReasons(t, b.check(t, alice), want)
	}
	b.SetOverride(t, deny(1, "alice"))
	if peek := b.peek(t, alice); peek.Reason != service.ReasonDenied || peek.Txns[0].Reason != service.ReasonLocked {
		t.Errorf("denied: %+v", peek)
	}
	b.SetOverride(t, allow(1, "alice"))
	if got := b.peek(t, alice).Reason; got != "" {
		t.Errorf("allowed: the peek tells %q", got)
	}
}

func reasonsOfABatch(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour})
	b.zone(t, 2, 1, time.Minute)
	user, addr := at(1, "alice"), at(2, "x")
	both := service.Check{Buckets: []service.Bucket{user, addr}}
	want := [][]service.Reason{
		{""},
		{service.ReasonLockout, service.ReasonElsewhere},
		{service.ReasonLocked, service.ReasonElsewhere},
		{""},
		{service.ReasonLocked, service.ReasonFull},
		{service.ReasonFull},
	}
	for i, d := range b.all(t, one(1, "alice"), both, both, one(2, "x"), both, one(2, "x")) {
		for j, v := range d.Verdicts {
			if v.Reason != want[i][j] {
				t.Errorf("check %d, bucket %d: reason %q, want %q", i, j, v.Reason, want[i][j])
			}
		}
	}
}
