package servicetest

import (
	"testing"
	"time"

	"velocityd/service"
)

func lockoutClaims() map[string]claim {
	return map[string]claim{
		"FullBucketIsLockedByTheAttemptThatFindsItFull": fullBucketIsLocked,
		"LockoutHoldsAsLongAsTheWindowIfThatIsLonger":   retryAfterIsTheLongerWait,
		"LockoutsGrowAreCappedAndDecay":                 lockoutsGrow,
		"LargestLockoutsDoNotOverflow":                  largestLockouts,
		"LockoutEndsWithTheSetting":                     lockoutEndsWithTheSetting,
		"LockoutLocksFullBucketsOfACheckAlone":          lockoutLocksFullBucketsAlone,
		"LockoutInsideOfABatch":                         lockoutInsideOfABatch,
		"LockoutOfAShadowBindsNobodyOnceEnforced":       shadowLockoutBindsNobody,
		"ADeniedAttemptBeginsNoLockoutOfOtherBuckets":   deniedBeginsNoLockout,
		"ConcurrentAttemptsLockOnce":                    concurrentAttemptsLockOnce,
	}
}

// wantRetry wants a blocked decision with a RetryAfter of want, which may be shorter by
// up to slack.
func wantRetry(tb testing.TB, d service.Decision, want, slack time.Duration) {
	tb.Helper()
	if got := d.RetryAfter(); !d.Blocked || got > want || got < want-slack || got%time.Second != 0 {
		tb.Errorf("got blocked %v, retry after %v, want %v", d.Blocked, got, want)
	}
}

// roundUp returns d in whole seconds, rounded up.
func roundUp(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }

func fullBucketIsLocked(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 2, Window: 5 * time.Minute, Lockout: 30 * time.Minute})
	alice := at(1, "alice")
	for range 2 {
		if d := b.check(t, alice); d.Blocked {
			t.Fatalf("the bucket has room: %+v", d)
		}
	}
	if until := b.peek(t, alice).LockedUntil.Time; !until.IsZero() {
		t.Errorf("locked until %v before anybody found it full", until)
	}
	locking := b.check(t, alice)
	wantRetry(t, locking, 30*time.Minute, 0)
	until := locking.CheckedAt.Add(30 * time.Minute)
	b.Age(t, alice, 10*time.Minute) // the window is empty, and the lock holds
	for range 3 {
		d := b.check(t, alice)
		if d.Verdicts[0].Velocity != 0 || d.Verdicts[0].Remaining() != 0 || !d.WouldBlock || !d.Verdicts[0].WouldBlock {
			t.Errorf("locked, with an empty window: %+v", d)
		}
		// Exactly: attempts while locked extend nothing.
		left := until.Add(-10 * time.Minute).Sub(d.CheckedAt.Time)
		wantRetry(t, d, roundUp(left), 0)
	}
	if got := b.peek(t, alice).LockedUntil.Time; !got.Equal(until.Add(-10 * time.Minute)) {
		t.Errorf("locked until %v, want %v", got, until.Add(-10*time.Minute))
	}
	b.Age(t, alice, 20*time.Minute)
	if d := b.check(t, alice); d.Blocked || d.Verdicts[0].Velocity != 1 {
		t.Errorf("after the lockout: %+v", d)
	}
	for i, txn := range b.Txns(t, alice) {
		blocked := i >= 2 && i <= 5
		if txn.Blocked != blocked || txn.WouldBlock != blocked || txn.Counted == blocked {
			t.Errorf("txn %d of 7 is %+v", i+1, txn)
		}
	}
}

func retryAfterIsTheLongerWait(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Lockout: 10 * time.Minute})
	alice := at(1, "alice")
	first := b.check(t, alice)
	d := b.check(t, alice)
	left := first.CheckedAt.Add(time.Hour).Sub(d.CheckedAt.Time)
	wantRetry(t, d, roundUp(left), 0)
	b.Age(t, alice, 50*time.Minute) // unlocked, and still full: locked again, and longer
	again := b.check(t, alice)
	wantRetry(t, again, 20*time.Minute, 0)
	b.Age(t, alice, again.RetryAfter())
	if d := b.check(t, alice); d.Blocked {
		t.Errorf("blocked after waiting for retry_after: %+v", d)
	}
	b.set(t, service.Zone{ID: 2, Rate: 0, Window: time.Hour, Lockout: 10 * time.Minute})
	wantRetry(t, b.check(t, at(2, "nobody")), time.Hour, 0)
	b.set(t, service.Zone{ID: 3, Rate: 0, Window: 10 * time.Minute, Lockout: time.Hour})
	wantRetry(t, b.check(t, at(3, "nobody")), time.Hour, 0)
}

// fill asks until a bucket of rate 1 is locked, and returns that decision.
func (b subject) fill(tb testing.TB, bucket service.Bucket) service.Decision {
	tb.Helper()
	if d := b.check(tb, bucket); d.Blocked {
		tb.Fatalf("the bucket should have room: %+v", d)
	}
	return b.check(tb, bucket)
}

func lockoutsGrow(t *testing.T, b subject) {
	for id, zone := range map[int64]struct {
		zone    service.Zone
		lengths []time.Duration // of one lockout after the other, each soon after the last
	}{
		1: {
			service.Zone{Lockout: time.Minute, LockoutMax: 5 * time.Minute},
			[]time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute},
		},
		2: {
			// The microseconds count, and show in whole seconds.
			service.Zone{Lockout: 61 * time.Second, LockoutFactor: 1.5},
			[]time.Duration{61 * time.Second, 92 * time.Second, 138 * time.Second, 206 * time.Second},
		},
		3: {
			service.Zone{Lockout: time.Hour, LockoutFactor: 1},
			[]time.Duration{time.Hour, time.Hour, time.Hour},
		},
		4: {
			service.Zone{Lockout: time.Hour, LockoutMax: time.Minute},
			[]time.Duration{time.Minute, time.Minute},
		},
		5: {
			service.Zone{Lockout: 100 * time.Second, LockoutFactor: 3.33},
			[]time.Duration{100 * time.Second, 333 * time.Second, 1109 * time.Second},
		},
	} {
		zone.zone.ID, zone.zone.Rate, zone.zone.Window = id, 1, time.Minute
		zone.zone.LockoutDecay = 30 * time.Minute
		b.set(t, zone.zone)
		alice := at(id, "alice")
		for i, want := range zone.lengths {
			d := b.fill(t, alice)
			if d.RetryAfter() != want {
				t.Errorf("zone %d, lockout %d: retry after %v, want %v", id, i+1, d.RetryAfter(), want)
			}
			b.Age(t, alice, want)
		}
		b.Age(t, alice, 25*time.Minute)
		last := zone.lengths[len(zone.lengths)-1]
		if d := b.fill(t, alice); d.RetryAfter() < last {
			t.Errorf("zone %d: a lockout within the decay is %v, the last was %v", id, d.RetryAfter(), last)
		}
		b.Age(t, alice, 3*time.Hour)
		if d := b.fill(t, alice); d.RetryAfter() != zone.lengths[0] {
			t.Errorf("zone %d: a lockout after the decay is %v, want %v", id, d.RetryAfter(), zone.lengths[0])
		}
		if d := b.fill(t, at(id, "bob")); d.RetryAfter() != zone.lengths[0] {
			t.Errorf("zone %d: another bucket's lockout is %v, want %v", id, d.RetryAfter(), zone.lengths[0])
		}
	}
}

func largestLockouts(t *testing.T, b subject) {
	largest := service.Zone{
		ID: 1, Rate: 0, Window: time.Minute, Lockout: service.MaxWindow, LockoutFactor: service.MaxLockoutFactor,
		LockoutMax: service.MaxWindow, LockoutDecay: service.MaxWindow,
	}
	b.set(t, largest)
	alice := at(1, "alice")
	for i := range 50 {
		if d := b.check(t, alice); !d.Blocked || d.RetryAfter() != service.MaxWindow {
			t.Fatalf("lockout %d: %+v, want %v", i+1, d, service.MaxWindow)
		}
		if until := b.peek(t, alice).LockedUntil.Time; i == 0 && until.Before(time.Now().Add(service.MaxWindow-time.Hour)) {
			t.Errorf("locked until %v, want %v from now", until, service.MaxWindow)
		}
		b.Age(t, alice, service.MaxWindow)
	}
	largest.ID, largest.Lockout, largest.Window = 2, time.Minute, time.Second
	b.set(t, largest)
	for i, want := range []time.Duration{time.Minute, 100 * time.Minute, 10_000 * time.Minute, service.MaxWindow, service.MaxWindow} {
		d := b.check(t, at(2, "alice"))
		if d.RetryAfter() != want {
			t.Fatalf("lockout %d: retry after %v, want %v", i+1, d.RetryAfter(), want)
		}
		b.Age(t, at(2, "alice"), want)
	}
}

func lockoutEndsWithTheSetting(t *testing.T, b subject) {
	zone := service.Zone{ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour}
	b.set(t, zone)
	alice := at(1, "alice")
	b.fill(t, alice)
	b.Age(t, alice, 10*time.Minute)
	if d := b.check(t, alice); !d.Blocked {
		t.Fatalf("locked: %+v", d)
	}
	off := zone
	off.Lockout = 0
	b.set(t, off)
	if d := b.check(t, alice); d.Blocked || !b.peek(t, alice).LockedUntil.IsZero() {
		t.Errorf("the zone locks nothing any more, but: %+v", d)
	}
	if d := b.check(t, alice); !d.Blocked || d.RetryAfter() > time.Minute {
		t.Errorf("full, in a zone that locks nothing: %+v", d)
	}
	// A shorter setting holds for lockouts to come; one that began runs its course.
	shorter := zone
	shorter.Lockout = 2 * time.Minute
	b.set(t, shorter)
	b.fill(t, at(1, "bob"))
	if left := b.peek(t, at(1, "bob")).RetryAfter.Duration; left > 2*time.Minute || left < time.Minute {
		t.Errorf("bob is locked for %v, want 2m", left)
	}
	d := b.check(t, alice)
	wantRetry(t, d, 50*time.Minute, time.Minute)
}

func lockoutLocksFullBucketsAlone(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 2, Window: time.Minute, Lockout: time.Hour})
	b.set(t, service.Zone{ID: 2, Rate: 1, Window: time.Minute, Lockout: 2 * time.Hour})
	b.zone(t, 3, 9, time.Hour)
	user, addr, other := at(1, "alice"), at(2, "203.0.113.9"), at(3, "x")
	b.check(t, user, addr, other)
	for i := range 3 {
		d := b.check(t, other, user, addr)
		if d.Verdicts[1].Blocked || d.Verdicts[1].Velocity != 1 || !d.Verdicts[2].Blocked {
			t.Errorf("check %d: want the address alone to block: %+v", i, d)
		}
		wantRetry(t, d, 2*time.Hour, time.Minute)
	}
	b.Age(t, addr, 3*time.Hour)
	d := b.check(t, user, addr)
	if d.Blocked || d.Verdicts[0].Velocity != 2 {
		t.Fatalf("the user was locked or charged by checks that the address blocked: %+v", d)
	}
	// Both are full, and both are locked, each for its own time.
	d = b.check(t, user, addr)
	if d.Verdicts[0].RetryAfter.Duration != time.Hour || d.Verdicts[1].RetryAfter.Duration != 4*time.Hour {
		t.Errorf("want both locked, for 1h and 4h: %+v", d)
	}
	if d := b.check(t, other); d.Blocked || d.Verdicts[0].Velocity != 2 {
		t.Errorf("the third bucket: %+v", d)
	}
}

func shadowLockoutBindsNobody(t *testing.T, b subject) {
	zone := service.Zone{ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour, Mode: service.ModeShadow}
	b.set(t, zone)
	alice, bob := at(1, "alice"), at(1, "bob")
	b.wantReasons(t, b.fill(t, alice), service.ReasonLockout)
	b.age(t, 10*time.Minute, alice)
	b.wantReasons(t, b.check(t, alice), service.ReasonLocked)

	zone.Mode = service.ModeEnforce
	b.set(t, zone)
	if peek := b.peek(t, alice); !peek.LockedUntil.IsZero() || peek.Remaining != 1 {
		t.Errorf("enforced by now: %+v", peek)
	}
	if d := b.check(t, alice); d.Blocked {
		t.Errorf("locked by what only a shadow saw: %+v", d)
	}
	d := b.check(t, alice)
	b.wantReasons(t, d, service.ReasonLockout)
	wantRetry(t, d, time.Hour, 0) // not grown from that of the shadow
	b.wantReasons(t, b.all(t, service.Check{Buckets: []service.Bucket{alice, bob}, AttemptID: "enforced"})[0],
		service.ReasonLocked, service.ReasonElsewhere)

	// A lockout that began enforced holds in the shadow, and again after it.
	zone.Mode = service.ModeShadow
	b.set(t, zone)
	b.wantReasons(t, b.check(t, alice), service.ReasonLocked)
	zone.Mode = service.ModeEnforce
	b.set(t, zone)
	b.age(t, 10*time.Minute, alice)
	wantRetry(t, b.check(t, alice), 50*time.Minute, time.Minute)
}

func deniedBeginsNoLockout(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: 10 * time.Minute, Lockout: time.Hour})
	b.set(t, service.Zone{ID: 2, Rate: 9, Window: time.Minute})
	b.set(t, service.Zone{ID: 3, Rate: 9, Window: time.Minute, Mode: service.ModeShadow})
	b.SetOverride(t, deny(2, "stranger"))
	b.SetOverride(t, deny(3, "watched"))
	user, stranger, watched := at(1, "alice"), at(2, "stranger"), at(3, "watched")
	b.check(t, user)
	for _, buckets := range [][]service.Bucket{{user, stranger}, {stranger, user}} {
		for _, d := range b.all(t, service.Check{Buckets: buckets}, service.Check{Buckets: buckets}) {
			for _, v := range d.Verdicts {
				if want := map[service.Bucket]service.Reason{user: service.ReasonFull, stranger: service.ReasonDenied}[v.Bucket]; v.Reason != want {
					t.Errorf("reason %q, want %q: %+v", v.Reason, want, v)
				}
				if v.Bucket == user && (v.RetryAfter.Duration > 10*time.Minute || v.RetryAfter.Duration < 9*time.Minute) {
					t.Errorf("the user waits for %v, as before", v.RetryAfter.Duration)
				}
			}
		}
	}
	if until := b.peek(t, user).LockedUntil.Time; !until.IsZero() {
		t.Errorf("a denied stranger has locked the user until %v", until)
	}
	b.Age(t, user, 10*time.Minute)
	if d := b.check(t, user); d.Blocked {
		t.Errorf("the user's window is over: %+v", d)
	}
	// A zone that only watches denies nobody, and an attempt of the user locks as ever.
	b.wantReasons(t, b.check(t, user, watched), service.ReasonLockout, service.ReasonDenied)
	b.wantReasons(t, b.check(t, user, stranger), service.ReasonLocked, service.ReasonDenied)
}

func lockoutInsideOfABatch(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour})
	both := service.Check{Buckets: []service.Bucket{at(1, "bob"), at(1, "alice")}}
	decisions := b.all(t, one(1, "alice"), one(1, "alice"), one(1, "alice"), both, one(1, "bob"), one(1, "alice"))
	for i, want := range []time.Duration{0, time.Hour, time.Hour, time.Hour, 0, time.Hour} {
		if d := decisions[i]; d.RetryAfter() != want || d.Blocked != (want > 0) {
			t.Errorf("check %d: got %+v, want retry after %v", i, d, want)
		}
	}
	b.Age(t, at(1, "alice"), time.Hour)
	for i, d := range b.all(t, one(1, "alice"), one(1, "alice"), one(1, "alice")) {
		if want := []time.Duration{0, 2 * time.Hour, 2 * time.Hour}[i]; d.RetryAfter() != want {
			t.Errorf("check %d of the second batch: got %+v, want retry after %v: one lockout a batch", i, d, want)
		}
	}
}

func concurrentAttemptsLockOnce(t *testing.T, b subject) {
	const callers, rate = 200, 3
	b.set(t, service.Zone{ID: 1, Rate: rate, Window: time.Minute, Lockout: 10 * time.Minute, LockoutFactor: 3})
	alice := at(1, "alice")
	allowed := 0
	decisions := b.together(t, callers, func(int) service.Check { return one(1, "alice") })
	until := b.peek(t, alice).LockedUntil.Time
	for _, d := range decisions {
		if !d.Blocked {
			allowed++
			continue
		}
		wantRetry(t, d, 10*time.Minute, 5*time.Minute)
		if end := d.CheckedAt.Add(d.RetryAfter()); end.Before(until) || !end.Add(-time.Second).Before(until) {
			t.Errorf("retry after %v from %v, but locked until %v", d.RetryAfter(), d.CheckedAt.Time, until)
		}
		if t.Failed() {
			return
		}
	}
	if allowed != rate {
		t.Errorf("allowed %d, want %d", allowed, rate)
	}
	if recorded, counted := b.counted(t, alice); recorded != callers || counted != rate {
		t.Errorf("recorded %d, counted %d, want %d and %d", recorded, counted, callers, rate)
	}
	// Locked again at once by another crowd: it is the second lockout, not more.
	b.Age(t, alice, 10*time.Minute)
	for _, d := range b.together(t, 50, func(int) service.Check { return one(1, "alice") }) {
		if d.Blocked {
			wantRetry(t, d, 30*time.Minute, 5*time.Minute)
		}
	}
}
