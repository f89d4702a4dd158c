package servicetest

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"velocityd/service"
)

func peekClaims() map[string]claim {
	return map[string]claim{
		"PeekConsumesNothing":                 peekConsumesNothing,
		"PeekTellsWhatTheNextAttemptMeets":    peekTellsTheNextAttempt,
		"PeekShowsTheNewestTxns":              peekShowsTheNewestTxns,
		"PeekShowsLockoutAndOverride":         peekShowsLockoutAndOverride,
		"PeekOfAKeyNeverSeenIsThatOfAnIdle":   peekNeverSeenIsIdle,
		"PeekIntoAnUnknownZoneIsNotFound":     peekIntoAnUnknownZone,
		"PeeksRacingWithChecksSeeNoMoreThanN": peeksRacingWithChecks,
	}
}

func peekConsumesNothing(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Lockout: time.Hour})
	alice := at(1, "alice")
	for range 5 {
		if peek := b.peek(t, alice); peek.Velocity != 0 || peek.Remaining != 1 || peek.RetryAfter.Duration != 0 || len(peek.Txns) != 0 {
			t.Errorf("a bucket nobody has used: %+v", peek)
		}
	}
	if txns := b.Txns(t, alice); len(txns) != 0 {
		t.Errorf("peeking recorded %+v", txns)
	}
	if d := b.check(t, alice); d.Blocked || d.Verdicts[0].Velocity != 1 {
		t.Errorf("after peeking: %+v", d)
	}
	for range 5 {
		// It tells of the lockout to come, and does not bring it about.
		if peek := b.peek(t, alice); peek.Velocity != 1 || peek.Remaining != 0 ||
			peek.RetryAfter.Duration != time.Hour || !peek.LockedUntil.IsZero() {
			t.Errorf("a full bucket: %+v", peek)
		}
	}
	if recorded, counted := b.counted(t, alice); recorded != 1 || counted != 1 {
		t.Errorf("recorded %d, counted %d, want 1 and 1", recorded, counted)
	}
}

func peekTellsTheNextAttempt(t *testing.T, b subject) {
	for id, mode := range map[int64]service.Mode{1: service.ModeEnforce, 2: service.ModeShadow} {
		b.set(t, service.Zone{ID: id, Rate: 3, Window: time.Hour, Mode: mode})
		alice := at(id, "alice")
		for i := range 5 {
			peek, d := b.peek(t, alice), b.check(t, alice)
			if peek.Bucket != alice || peek.Mode != mode || peek.Rate != 3 || peek.Window.Duration != time.Hour {
				t.Errorf("%s: the peek speaks of %+v", mode, peek)
			}
			if peek.At.Location() != time.UTC || peek.At.After(d.CheckedAt.Time) || peek.At.Before(d.CheckedAt.Add(-time.Minute)) {
				t.Errorf("%s: the peek is of %v, the check after it of %v", mode, peek.At.Time, d.CheckedAt.Time)
			}
			if peek.Velocity != min(i, 3) || peek.Remaining != max(0, 3-i) || (peek.RetryAfter.Duration > 0) != d.WouldBlock {
				t.Errorf("%s, after %d attempts: %+v", mode, i, peek)
			}
			b.Age(t, alice, time.Minute)
		}
		// Room comes when the first of the counted leaves the window.
		peek := b.peek(t, alice)
		free := b.Txns(t, alice)[0].CreatedAt.Add(time.Hour)
		if then := peek.At.Add(peek.RetryAfter.Duration); then.Before(free) || !then.Add(-time.Second).Before(free) {
			t.Errorf("%s: retry after %v from %v, but room comes at %v", mode, peek.RetryAfter.Duration, peek.At.Time, free)
		}
	}
	zone := service.Zone{ID: 3, Rate: 1, Window: time.Hour}
	b.set(t, zone)
	b.check(t, at(3, "alice"))
	zone.Mode = service.ModeOff
	b.set(t, zone)
	if peek := b.peek(t, at(3, "alice")); peek.Mode != service.ModeOff || !peek.Unmetered || peek.Remaining != 0 || peek.RetryAfter.Duration != 0 {
		t.Errorf("off: %+v, want no figures of a limit that does not decide", peek)
	}
	b.zone(t, 4, 0, time.Hour)
	if peek := b.peek(t, at(4, "alice")); peek.RetryAfter.Duration != time.Hour || peek.Remaining != 0 || peek.Velocity != 0 {
		t.Errorf("rate 0: %+v", peek)
	}
}

func peekShowsTheNewestTxns(t *testing.T, b subject) {
	b.zone(t, 1, 5, time.Hour)
	b.zone(t, 2, 5, time.Hour)
	alice := at(1, "alice")
	first := b.attempt(t, "first", alice, at(2, "x"))
	b.wantReport(t, first.TxnID(), success, nil)
	for count := 1; count <= service.PeekTxns+3; count++ {
		txns := b.Txns(t, alice)
		peek := b.peek(t, alice)
		if len(peek.Txns) != min(count, service.PeekTxns) {
			t.Fatalf("of %d txns the peek shows %d", count, len(peek.Txns))
		}
		for i, txn := range peek.Txns {
			if want := txns[len(txns)-1-i]; txn != want {
				t.Errorf("of %d txns, number %d of the peek is %+v, want %+v", count, i, txn, want)
			}
		}
		b.Age(t, alice, time.Second)
		b.check(t, alice)
	}
}

func peekShowsLockoutAndOverride(t *testing.T, b subject) {
	b.set(t, service.Zone{
		ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP},
	})
	addr := at(1, "203.0.113.9")
	locking := b.fill(t, addr)
	until := locking.CheckedAt.Add(time.Hour)
	peek := b.peek(t, addr)
	if !peek.LockedUntil.Equal(until) || peek.Remaining != 0 || peek.Override != nil {
		t.Errorf("locked until %v: %+v", until, peek)
	}
	if then := peek.At.Add(peek.RetryAfter.Duration); then.Before(until) || !then.Add(-time.Second).Before(until) {
		t.Errorf("retry after %v from %v, want until %v", peek.RetryAfter.Duration, peek.At.Time, until)
	}
	network := within("203.0.113.0/24", limit(1, "", 7, time.Hour))
	network.ExpiresAt.Time = until.Add(24 * time.Hour)
	b.SetOverride(t, network)
	peek = b.peek(t, addr)
	if o := peek.Override; o == nil || o.Prefix != network.Prefix || o.Action != network.Action || o.Rate != 7 ||
		o.Window.Duration != time.Hour ||
		!o.ExpiresAt.Equal(network.ExpiresAt.Time) || o.Reason != network.Reason || o.CreatedBy != network.CreatedBy ||
		o.ID == 0 || o.ZoneID != 1 {
		t.Errorf("peek shows override %+v, want %+v", o, network)
	}
	if peek.Rate != 7 || peek.Window.Duration != time.Hour || peek.Velocity != 1 || peek.Remaining != 0 {
		t.Errorf("limited, and locked: %+v", peek)
	}
	b.SetOverride(t, allow(1, addr.Key))
	peek = b.peek(t, addr)
	if peek.Override == nil || peek.Override.Key != addr.Key || peek.RetryAfter.Duration != 0 || peek.Rate != 1 || !peek.Unmetered ||
		peek.Velocity+peek.Remaining != 0 || !peek.LockedUntil.IsZero() {
		t.Errorf("allowed: %+v", peek)
	}
	b.SetOverride(t, deny(1, addr.Key))
	if peek := b.peek(t, addr); peek.RetryAfter.Duration != time.Minute || !peek.Unmetered || peek.Remaining != 0 ||
		!peek.LockedUntil.IsZero() {
		t.Errorf("denied: %+v", peek)
	}
	b.DeleteOverrides(t, 1)
	b.Age(t, addr, time.Hour)
	if peek := b.peek(t, addr); !peek.LockedUntil.IsZero() || peek.Override != nil || peek.Remaining != 1 || peek.RetryAfter.Duration != 0 {
		t.Errorf("after the lockout: %+v", peek)
	}
}

func peekNeverSeenIsIdle(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour, LockoutDecay: time.Hour})
	idle := at(1, "idle")
	b.fill(t, idle)
	b.Age(t, idle, 24*time.Hour)
	seen, never := b.peek(t, idle), b.peek(t, at(1, "never"))
	if len(seen.Txns) != 2 || len(never.Txns) != 0 {
		t.Errorf("txns of the idle one: %+v, of the other: %+v", seen.Txns, never.Txns)
	}
	seen.Bucket, seen.At, seen.Txns = never.Bucket, never.At, never.Txns
	if !reflect.DeepEqual(seen, never) {
		t.Errorf("idle  %+v\nnever %+v", seen, never)
	}
	if never.Velocity != 0 || never.Remaining != 1 || never.RetryAfter.Duration != 0 || !never.LockedUntil.IsZero() || never.Override != nil {
		t.Errorf("never seen: %+v", never)
	}
	if txns := b.Txns(t, at(1, "never")); len(txns) != 0 {
		t.Errorf("peeking recorded %+v", txns)
	}
}

func peekIntoAnUnknownZone(t *testing.T, b subject) {
	if peek, err := b.Peek(t.Context(), at(404, "alice")); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("got %+v, %v, want ErrNotFound", peek, err)
	}
}

func peeksRacingWithChecks(t *testing.T, b subject) {
	const rate, peeks = 5, 50
	b.zone(t, 1, rate, time.Hour)
	alice := at(1, "alice")
	seen := make([]service.Peek, peeks)
	errs := make([]error, peeks)
	var group sync.WaitGroup
	for i := range peeks {
		group.Go(func() { seen[i], errs[i] = b.Peek(context.Background(), alice) })
	}
	b.together(t, 50, func(int) service.Check { return one(1, "alice") })
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, peek := range seen {
		if peek.Velocity+peek.Remaining != rate || (peek.RetryAfter.Duration > 0) != (peek.Remaining == 0) {
			t.Errorf("a peek beside checks: %+v", peek)
		}
	}
	if recorded, counted := b.counted(t, alice); recorded != 50 || counted != rate {
		t.Errorf("recorded %d, counted %d, want 50 and %d", recorded, counted, rate)
	}
}
