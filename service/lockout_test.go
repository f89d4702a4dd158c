package service_test

import (
	"testing"
	"time"

	"velocityd/service"
)

const us = time.Microsecond

// locked is a ledger whose zone 1 has room for one, locks for ten minutes, and
// locked alice until some time after noon.
func locked(until, length time.Duration) book {
	l := ledger(1)
	l.Zones[1] = service.Zone{
		ID: 1, Rate: 1, Window: time.Hour, Lockout: 10 * time.Minute, LockoutMax: 3 * time.Hour, LockoutDecay: time.Hour,
	}
	l.Lockouts = map[service.Bucket]service.Lockout{}
	if length > 0 {
		l.Lockouts[at(1, "alice")] = service.Lockout{Until: noon().Add(until), Length: length}
	}
	return l
}

func TestDecideHoldsALockoutUntilItsVeryEnd(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		until   time.Duration // the end, from noon
		blocked bool
		retry   time.Duration
	}{
		{time.Hour, true, time.Hour},
		{time.Second + us, true, 2 * time.Second},
		{time.Second, true, time.Second},
		{us, true, time.Second},
		{0, false, 0},
		{-us, false, 0},
	} {
		l := locked(test.until, time.Hour)
		r := decide(noon(), l, []service.Check{check(at(1, "alice"))})
		d := r.Decisions[0]
		v := d.Verdicts[0]
		if d.Blocked != test.blocked || v.WouldBlock != test.blocked || v.RetryAfter.Duration != test.retry ||
			v.Remaining() != 0 {
			t.Errorf("locked until %v from now: %+v, want blocked %v, retry after %v", test.until, d, test.blocked, test.retry)
		}
		if counted := apply(l, r); counted[0] == test.blocked {
			t.Errorf("locked until %v from now: counted %v", test.until, counted)
		}
		if got := l.Lockouts[at(1, "alice")].Until; !got.Equal(noon().Add(test.until)) {
			t.Errorf("locked until %v from now: the lockout moved to %v", test.until, got)
		}
	}
}

func TestDecideLocksLongerWithinTheDecay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name         string
		ended        time.Duration // how long before noon the last lockout ended
		last         time.Duration // its length; 0 is none
		factor       float64
		lockout, max time.Duration // 0: ten minutes, three hours
		want         time.Duration
	}{
		{name: "the first", want: 10 * time.Minute},
		{name: "at once", last: 10 * time.Minute, want: 20 * time.Minute},
		{name: "at the last instant of the decay", ended: time.Hour, last: 10 * time.Minute, want: 20 * time.Minute},
		{name: "after it", ended: time.Hour + us, last: 10 * time.Minute, want: 10 * time.Minute},
		{name: "from what the last was, not from the setting", last: 7 * time.Minute, want: 14 * time.Minute},
		{name: "up to the maximum", last: 100 * time.Minute, want: 3 * time.Hour},
		{name: "at the maximum", last: 3 * time.Hour, want: 3 * time.Hour},
		{name: "from above a maximum that was lowered", last: 200 * time.Hour, want: 3 * time.Hour},
		{name: "a lockout above the maximum", lockout: time.Hour, max: time.Minute, want: time.Minute},
		{name: "not at all", last: 10 * time.Minute, factor: 1, want: 10 * time.Minute},
		{name: "by hundredths", last: 100 * time.Second, factor: 1.01, want: 101 * time.Second},
		{name: "in microseconds, cut off", last: 3 * us, factor: 1.5, want: 4 * us},
		{name: "by 2.29, which no float is", last: 100 * us, factor: 2.29, want: 229 * us},
		{
			name: "the largest of all", last: service.MaxWindow, factor: service.MaxLockoutFactor,
			lockout: service.MaxWindow, max: service.MaxWindow, want: service.MaxWindow,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := locked(-test.ended, test.last)
			zone := l.Zones[1]
			zone.LockoutFactor = test.factor
			if test.max > 0 {
				zone.LockoutMax = test.max
			}
			if test.lockout > 0 {
				zone.Lockout = test.lockout
			}
			l.Zones[1] = zone
			l.Counted[at(1, "alice")] = []time.Time{noon().Add(-time.Hour + us)} // full, for one microsecond more
			r := decide(noon(), l, []service.Check{check(at(1, "alice"))})
			d := r.Decisions[0]
			apply(l, r)
			if got := l.Lockouts[at(1, "alice")]; got.Length != test.want || !got.Until.Equal(noon().Add(test.want)) {
				t.Errorf("locked for %v until %v, want %v", got.Length, got.Until, test.want)
			}
			if want := max(time.Second, (test.want + time.Second - us).Truncate(time.Second)); d.RetryAfter() != want {
				t.Errorf("retry after %v, want %v", d.RetryAfter(), want)
			}
		})
	}
}

func TestDecideSaysTheLongerOfLockoutAndWindow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		age    time.Duration // of alice's only txn
		until  time.Duration // the end of her lockout, from now; 0 is none
		window time.Duration
		retry  time.Duration
	}{
		{"locks now, for longer than the window", 55 * time.Minute, 0, time.Hour, 10 * time.Minute},
		{"locks now, for less", 10 * time.Minute, 0, time.Hour, 50 * time.Minute},
		{"locked, and full for longer", 10 * time.Minute, 20 * time.Minute, time.Hour, 50 * time.Minute},
		{"locked for longer than full", 50 * time.Minute, 20 * time.Minute, time.Hour, 20 * time.Minute},
		{"locked, with an empty window", 2 * time.Hour, 20 * time.Minute, time.Hour, 20 * time.Minute},
	} {
		l := locked(test.until, test.until)
		l.Counted[at(1, "alice")] = []time.Time{noon().Add(-test.age)}
		if d := decide(noon(), l, []service.Check{check(at(1, "alice"))}).Decisions[0]; !d.Blocked ||
			d.RetryAfter() != test.retry {
			t.Errorf("%s: %+v, want retry after %v", test.name, d, test.retry)
		}
	}
}
