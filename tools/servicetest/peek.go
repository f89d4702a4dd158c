package servicetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/servicetest/steps"
	"velocityd/tools/servicetest/timeline"
)

func peekClaims() map[string]claim {
	return map[string]claim{
		"PeekConsumesNothing": script(`
			zone 1 rate=1 lockout=1h
			5x peek 1/alice -> v=0 left=1 retry=0s
			count 1/alice -> 0 of 0
			check 1/alice -> pass v=1
			5x peek 1/alice -> v=1 left=0 retry=1h until=0s // tells of the lockout to come, and does not begin it
			count 1/alice -> 1 of 1
		`),
		"PeekTellsWhatTheNextAttemptMeets": peekTellsTheNextAttempt,
		"PeekShowsTheNewestTxns":           peekShowsTheNewestTxns,
		"PeekShowsLockoutAndOverride":      peekShowsLockoutAndOverride,
		"PeekOfAKeyNeverSeenIsThatOfAnIdle": script(`
			zone 1 rate=1 window=1m lockout=1h lockout_decay=1h
			check 1/idle -> pass
			check 1/idle -> block
			age 1/idle 24h
			peek 1/idle -> room v=0 left=1 retry=0s until=0s rate=1 window=1m override=none unmetered=no
			peek 1/never -> room v=0 left=1 retry=0s until=0s rate=1 window=1m override=none unmetered=no
			count 1/never -> 0 of 0
		`),
		"PeekIntoAnUnknownZoneIsNotFound": script(`
			peek 404/alice -> unknown
		`),
		"PeeksRacingWithChecksSeeNoMoreThanN": peeksRacingWithChecks,
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
			if peek.At.Location() != time.UTC || peek.At.After(d.CheckedAt.Time) ||
				peek.At.Before(d.CheckedAt.Add(-time.Minute)) {
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
	if peek := b.peek(t, at(3, "alice")); peek.Mode != service.ModeOff || !peek.Unmetered || peek.Remaining != 0 ||
		peek.RetryAfter.Duration != 0 {
		t.Errorf("off: %+v, want no figures of a limit that does not decide", peek)
	}
	b.zone(t, 4, 0, time.Hour)
	if peek := b.peek(t, at(4, "alice")); peek.RetryAfter.Duration != time.Hour || peek.Remaining != 0 ||
		peek.Velocity != 0 {
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
	steps.Run(t, b, `
		zone 1 rate=1 window=1m lockout=1h key_kind=ip
		check 1/203.0.113.9 -> pass
		check 1/203.0.113.9 as=locking -> block
		peek 1/203.0.113.9 -> locks=locking+1h ends=locking+1h left=0 override=none
	`)
	network := within("203.0.113.0/24", limit(1, "", 7, time.Hour))
	network.ExpiresAt.Time = time.Now().Add(24 * time.Hour).Truncate(time.Microsecond)
	b.SetOverride(t, network)
	if o := b.peek(t, at(1, "203.0.113.9")).Override; !timeline.SameOverride(o, &network) || o.ID == 0 {
		t.Errorf("peek shows override %+v, want %+v", o, network)
	}
	steps.Run(t, b, `
		peek 1/203.0.113.9 -> rate=7 window=1h v=1 left=0 override=limit
		allow 1/203.0.113.9
		peek 1/203.0.113.9 -> retry=0s rate=1 unmetered v=0 left=0 until=0s override=allow
		deny 1/203.0.113.9
		peek 1/203.0.113.9 -> retry=1m unmetered left=0 until=0s override=deny
		clear 1
		age 1/203.0.113.9 1h
		peek 1/203.0.113.9 -> until=0s left=1 retry=0s override=none
	`)
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
