package servicetest

import (
	"testing"
	"time"

	"velocityd/service"
)

func concurrentClaims() map[string]claim {
	return map[string]claim{
		"NoMoreAttemptsAreUnderWayThanConcurrent":          noMoreUnderWay,
		"AnAttemptIsUnderWayForItsReserveTTL":              underWayForReserve,
		"AttemptsUnderWayAreBoundedUnderContention":        boundedUnderContention,
		"TooManyUnderWayBeginNoLockout":                    concurrentLocksNobody,
		"ConcurrentBindsTheAttemptsThatALimitBinds":        concurrentBindsTheLimited,
		"ConcurrentHoldsFromTheNextCheckOn":                concurrentFromNextCheck,
		"WhatIsReleasedIsUnderWayNoMore":                   releasedIsOver,
		"TheAttemptsOfABatchAreUnderWayForThoseBehindThem": batchIsUnderWay,
	}
}

// concurrent creates zone 1 with room for many attempts, of which so many may be under way for ten minutes.
func (b subject) concurrent(tb testing.TB, most int) service.Zone {
	tb.Helper()
	return b.set(tb, service.Zone{ID: 1, Rate: 50, Window: time.Hour, ReserveTTL: 10 * time.Minute, Concurrent: most})
}

// wantConcurrent wants a decision that blocks because too many attempts of its first bucket are under way.
func (b subject) wantConcurrent(tb testing.TB, d service.Decision, atMost time.Duration) {
	tb.Helper()
	if v := d.Verdicts[0]; !d.Blocked || v.Reason != service.ReasonConcurrent || v.Remaining() != 0 ||
		v.RetryAfter.Duration > atMost || v.RetryAfter.Duration <= atMost-time.Minute {
		tb.Errorf("got %+v, want it blocked as concurrent for up to %v", d, atMost)
	}
}

func noMoreUnderWay(t *testing.T, b subject) {
	for _, counts := range []service.Counts{service.CountsAttempts, service.CountsFailures} {
		zone := b.concurrent(t, 2)
		zone.Counts = counts
		b.set(t, zone)
		alice := at(1, string(counts))
		first, second := b.check(t, alice), b.check(t, alice)
		for range 2 { // a blocked attempt is not under way
			d := b.check(t, alice)
			b.wantConcurrent(t, d, 10*time.Minute)
			b.wantReasons(t, d, service.ReasonConcurrent)
		}
		if peek := b.peek(t, alice); peek.Reason != service.ReasonConcurrent || peek.Velocity != 2 || peek.RetryAfter.Duration == 0 {
			t.Errorf("peek: %+v", peek)
		}
		for _, report := range []service.Report{{TxnID: first.TxnID(), Outcome: failure}, {TxnID: second.TxnID(), Outcome: success}} {
			b.wantReport(t, report.TxnID, report.Outcome, nil)
			if d := b.check(t, alice); d.Blocked {
				t.Errorf("counts %s, after a %s: %+v", counts, report.Outcome, d)
			}
			b.wantConcurrent(t, b.check(t, alice), 10*time.Minute)
		}
	}
}

func underWayForReserve(t *testing.T, b subject) {
	b.concurrent(t, 1)
	alice := at(1, "alice")
	b.check(t, alice)
	b.Age(t, alice, 7*time.Minute)
	b.wantConcurrent(t, b.check(t, alice), 3*time.Minute)
	b.Age(t, alice, 3*time.Minute)
	if d := b.check(t, alice); d.Blocked || d.Verdicts[0].Velocity != 2 {
		t.Errorf("after reserve_ttl: %+v, want it to pass as the second that counts", d)
	}
}

func boundedUnderContention(t *testing.T, b subject) {
	const most = 3
	b.concurrent(t, most)
	decisions := b.together(t, 40, func(int) service.Check { return one(1, "alice") })
	if n := allowedOf(decisions); n != most {
		t.Errorf("%d attempts at once were allowed, want %d", n, most)
	}
	for _, d := range decisions {
		if !d.Blocked {
			b.wantReport(t, d.TxnID(), failure, nil)
		}
	}
	if n := allowedOf(b.together(t, 40, func(int) service.Check { return one(1, "alice") })); n != most {
		t.Errorf("after all outcomes %d attempts at once were allowed, want %d", n, most)
	}
}

func concurrentLocksNobody(t *testing.T, b subject) {
	zone := b.concurrent(t, 1)
	zone.Rate, zone.Lockout = 2, 30*time.Minute
	b.set(t, zone)
	alice := at(1, "alice")
	first := b.check(t, alice)
	b.wantConcurrent(t, b.check(t, alice), 10*time.Minute)
	b.wantReport(t, first.TxnID(), failure, nil)
	b.wantReasons(t, b.check(t, alice), "")
	// Full and too many under way: that the bucket is full comes first, and begins the lockout.
	d := b.check(t, alice)
	b.wantReasons(t, d, service.ReasonLockout)
	b.wantReasons(t, b.check(t, alice), service.ReasonLocked)

	zone.Lockout, zone.ID = 0, 2
	b.set(t, zone)
	full := at(2, "alice")
	b.wantReport(t, b.check(t, full).TxnID(), failure, nil)
	b.check(t, full)
	if d := b.check(t, full); d.Verdicts[0].Reason != service.ReasonFull || d.RetryAfter() <= 59*time.Minute {
		t.Errorf("full and too many under way: %+v", d)
	}
}

func concurrentBindsTheLimited(t *testing.T, b subject) {
	zone := b.concurrent(t, 1)
	b.SetOverride(t, allow(1, "friend"))
	b.SetOverride(t, limit(1, "limited", 9, 2*time.Hour))
	for range 2 {
		b.wantReasons(t, b.check(t, at(1, "friend")), "")
	}
	b.check(t, at(1, "limited"))
	b.wantConcurrent(t, b.check(t, at(1, "limited")), 10*time.Minute)

	b.zone(t, 2, 9, time.Hour)
	d := b.check(t, at(2, "bob"), at(1, "limited"))
	b.wantReasons(t, d, service.ReasonElsewhere, service.ReasonConcurrent)
	if _, counted := b.counted(t, at(2, "bob")); counted != 0 {
		t.Errorf("%d attempts of the other bucket count, want none", counted)
	}

	zone.ID, zone.Mode = 3, service.ModeShadow
	b.set(t, zone)
	b.check(t, at(3, "alice"))
	if d := b.check(t, at(3, "alice")); d.Blocked || !d.WouldBlock || d.Verdicts[0].Reason != service.ReasonConcurrent {
		t.Errorf("in a shadow: %+v", d)
	}
	zone.ID, zone.Mode = 4, service.ModeOff
	b.set(t, zone)
	for range 2 {
		b.wantReasons(t, b.check(t, at(4, "alice")), "")
	}
}

func concurrentFromNextCheck(t *testing.T, b subject) {
	zone := b.concurrent(t, 0)
	alice := at(1, "alice")
	for range 3 {
		b.check(t, alice)
	}
	for _, step := range []struct {
		most    int
		blocked bool
	}{{3, true}, {4, false}, {4, true}, {2, true}, {0, false}, {0, false}} {
		zone.Concurrent = step.most
		b.set(t, zone)
		d := b.check(t, alice)
		if d.Blocked != step.blocked {
			t.Errorf("concurrent %d: %+v, want blocked %v", step.most, d, step.blocked)
		}
	}
}

func releasedIsOver(t *testing.T, b subject) {
	zone := b.concurrent(t, 1)
	zone.ResetOnSuccess = true
	b.set(t, zone)
	alice := at(1, "alice")
	b.check(t, alice)
	b.release(t, alice)
	first := b.check(t, alice)
	zone.Concurrent = 2
	b.set(t, zone)
	b.check(t, alice)
	b.wantConcurrent(t, b.check(t, alice), 10*time.Minute)
	b.wantReport(t, first.TxnID(), success, nil) // resets the bucket
	for range 2 {
		b.wantReasons(t, b.check(t, alice), "")
	}
	b.wantConcurrent(t, b.check(t, alice), 10*time.Minute)
}

func batchIsUnderWay(t *testing.T, b subject) {
	b.concurrent(t, 2)
	b.zone(t, 2, 9, time.Hour)
	var got []service.Reason
	for _, d := range b.all(t, one(1, "alice"), one(2, "alice"), one(1, "alice"), one(1, "bob"), one(1, "alice"), one(2, "alice")) {
		got = append(got, d.Verdicts[0].Reason)
	}
	for i, want := range []service.Reason{"", "", "", "", service.ReasonConcurrent, ""} {
		if got[i] != want {
			t.Errorf("check %d has the reason %q, want %q", i, got[i], want)
		}
	}
}
