package servicetest

import (
	"testing"
	"time"

	"velocityd/service"
)

func lockoutClaims() map[string]claim { //nolint:funlen // a table of scripts
	return map[string]claim{
		"FullBucketIsLockedByTheAttemptThatFindsItFull": script(`
			zone 1 rate=2 window=5m lockout=30m
			2x check 1/alice -> pass
			peek 1/alice -> until=0s // before any attempt found it full
			check 1/alice as=locking -> block wait=30m
			age 1/alice 10m // the window is empty, and the lock holds
			3x check 1/alice -> block v=0 left=0 ends=locking+20m // attempts while locked extend nothing
			peek 1/alice -> locks=locking+20m
			age 1/alice 20m
			check 1/alice -> pass v=1
			count 1/alice -> 3 of 7
		`),
		"LockoutHoldsAsLongAsTheWindowIfThatIsLonger": script(`
			zone 1 rate=1 lockout=10m
			check 1/alice as=first -> pass
			check 1/alice -> block ends=first+1h
			age 1/alice 50m // unlocked, and still full: locked again, and longer
			check 1/alice -> block wait=20m
			age 1/alice 20m
			check 1/alice -> pass
			zone 2 rate=0 lockout=10m
			check 2/nobody -> block wait=1h
			zone 3 rate=0 window=10m lockout=1h
			check 3/nobody -> block wait=1h
		`),
		"LockoutsGrowAreCappedAndDecay": lockoutsGrow,
		"LargestLockoutsDoNotOverflow":  largestLockouts,
		"LockoutEndsWithTheSetting": script(`
			zone 1 rate=1 window=1m lockout=1h
			check 1/alice -> pass
			check 1/alice -> block
			age 1/alice 10m
			check 1/alice -> block
			edit 1 lockout=0s
			check 1/alice -> pass
			peek 1/alice -> until=0s
			check 1/alice -> block wait=1m-1m
			edit 1 lockout=2m // for lockouts to come; one that began runs its course
			check 1/bob -> pass
			check 1/bob -> block
			peek 1/bob -> retry=2m-1m
			check 1/alice -> block wait=50m-1m
		`),
		"LockoutLocksFullBucketsOfACheckAlone": script(`
			zone 1 rate=2 window=1m lockout=1h
			zone 2 rate=1 window=1m lockout=2h
			zone 3 rate=9
			check 1/alice 2/203.0.113.9 3/x -> pass
			3x check 3/x 1/alice 2/203.0.113.9 -> block wait=2h-1m | elsewhere v=1 | retry=2h-1m
			age 2/203.0.113.9 3h
			check 1/alice 2/203.0.113.9 -> pass v=2 // neither locked nor charged by checks that the address blocked
			check 1/alice 2/203.0.113.9 -> block retry=1h | retry=4h // each for its own time
			check 3/x -> pass v=2
		`),
		"LockoutInsideOfABatch": script(`
			zone 1 rate=1 window=1m lockout=1h
			check 1/alice -> pass
			and 1/alice -> block wait=1h
			and 1/alice -> block wait=1h
			and 1/bob 1/alice -> block wait=1h
			and 1/bob -> pass
			and 1/alice -> block wait=1h
			age 1/alice 1h
			check 1/alice -> pass
			and 1/alice -> block wait=2h
			and 1/alice -> block wait=2h // one lockout a batch
		`),
		"LockoutOfAShadowBindsNobodyOnceEnforced": script(`
			zone 1 rate=1 window=1m lockout=1h mode=shadow
			check 1/alice -> pass
			check 1/alice -> would lockout
			age 1/alice 10m
			check 1/alice -> would locked
			edit 1 mode=enforce
			peek 1/alice -> until=0s left=1
			check 1/alice -> pass
			check 1/alice -> block lockout wait=1h // not grown from that of the shadow
			check 1/alice 1/bob id=enforced -> block locked | elsewhere
			edit 1 mode=shadow // a lockout that began enforced holds in the shadow, and again after it
			check 1/alice -> would locked
			edit 1 mode=enforce
			age 1/alice 10m
			check 1/alice -> block wait=50m-1m
		`),
		"ADeniedAttemptBeginsNoLockoutOfOtherBuckets": script(`
			zone 1 rate=1 window=10m lockout=1h
			zone 2 rate=9 window=1m
			zone 3 rate=9 window=1m mode=shadow
			deny 2/stranger
			deny 3/watched
			check 1/alice -> pass
			check 1/alice 2/stranger -> block full retry=10m-1m | denied
			and 1/alice 2/stranger -> block full retry=10m-1m | denied
			check 2/stranger 1/alice -> block denied | full retry=10m-1m
			and 2/stranger 1/alice -> block denied | full retry=10m-1m
			peek 1/alice -> until=0s
			age 1/alice 10m
			check 1/alice -> pass
			check 1/alice 3/watched -> block lockout | denied // a zone that only watches denies no attempt
			check 1/alice 2/stranger -> block locked | denied
		`),
		"ConcurrentAttemptsLockOnce": concurrentAttemptsLockOnce,
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
	for i, want := range []time.Duration{
		time.Minute, 100 * time.Minute, 10_000 * time.Minute, service.MaxWindow,
		service.MaxWindow,
	} {
		d := b.check(t, at(2, "alice"))
		if d.RetryAfter() != want {
			t.Fatalf("lockout %d: retry after %v, want %v", i+1, d.RetryAfter(), want)
		}
		b.Age(t, at(2, "alice"), want)
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
