package service_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"velocityd/service"
)

// noon is the instant at which tables decide.
func noon() time.Time { return time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC) }

func at(zone int64, key string) service.Bucket { return service.Bucket{ZoneID: zone, Key: key} }

func check(buckets ...service.Bucket) service.Check { return service.Check{Buckets: buckets} }

// apply records a ruling in the ledger that it was made of, and says of each txn
// whether it counts. Txn ids become 0, so that decisions compare.
func apply(l book, r service.Ruling) (counted []bool) {
	maps.Copy(l.Lockouts, r.Lockouts)
	for _, txn := range r.Txns {
		counted = append(counted, txn.Counted)
		if txn.Counted {
			l.Counted[txn.Bucket] = append(l.Counted[txn.Bucket], txn.CreatedAt.Time)
		}
	}
	r.Number(0, 0)
	return counted
}

// ledger knows zone 1 with a window of an hour and a history of alice in it,
// given as ages at noon.
func ledger(rate int, ages ...time.Duration) book {
	l := book{
		Zones:   map[int64]service.Zone{1: {ID: 1, Rate: rate, Window: time.Hour}},
		Counted: map[service.Bucket][]time.Time{},
	}
	for _, age := range ages {
		l.Counted[at(1, "alice")] = append(l.Counted[at(1, "alice")], noon().Add(-age))
	}
	return l
}

func TestDecideCountsTxnsYoungerThanTheWindow(t *testing.T) {
	t.Parallel()
	const us = time.Microsecond
	for _, test := range []struct {
		name     string
		rate     int
		ages     []time.Duration // of alice's counted txns
		blocked  bool
		velocity int
		retry    time.Duration
	}{
		{"no history", 1, nil, false, 1, 0},
		{"exactly as old as the window", 1, []time.Duration{time.Hour}, false, 1, 0},
		{"one microsecond older", 1, []time.Duration{time.Hour + us}, false, 1, 0},
		{"one microsecond younger", 1, []time.Duration{time.Hour - us}, true, 1, time.Second},
		{"this very instant", 1, []time.Duration{0}, true, 1, time.Hour},
		{"later than now: the clock stepped back", 1, []time.Duration{-10 * time.Minute}, true, 1, 70 * time.Minute},
		{"later than now by more than the window", 1, []time.Duration{-2 * time.Hour}, true, 1, 3 * time.Hour},
		{"room for one", 3, []time.Duration{time.Minute, 2 * time.Hour, time.Hour - us}, false, 3, 0},
		{
			"full, and older ones out", 2,
			[]time.Duration{9 * time.Hour, 40 * time.Minute, time.Hour, 10 * time.Minute},
			true,
			2, 20 * time.Minute,
		},
		{
			"history in any order", 2,
			[]time.Duration{10 * time.Minute, 9 * time.Hour, 40 * time.Minute, time.Hour},
			true, 2,
			20 * time.Minute,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := decide(noon(), ledger(test.rate, test.ages...), []service.Check{check(at(1, "alice"))}).Decisions[0]
			v := d.Verdicts[0]
			if d.Err != nil || d.Blocked != test.blocked || v.Blocked != test.blocked {
				t.Errorf("blocked = %v, verdict %v, err %v, want %v", d.Blocked, v.Blocked, d.Err, test.blocked)
			}
			if v.Velocity != test.velocity || v.Remaining() != test.rate-test.velocity {
				t.Errorf("velocity = %d, remaining %d, want %d", v.Velocity, v.Remaining(), test.velocity)
			}
			if v.RetryAfter.Duration != test.retry || d.RetryAfter() != test.retry {
				t.Errorf("retry after %v, of the check %v, want %v", v.RetryAfter.Duration, d.RetryAfter(), test.retry)
			}
			if v.Rate != test.rate || v.Window.Duration != time.Hour || v.Bucket != at(1, "alice") ||
				!d.CheckedAt.Equal(noon()) {
				t.Errorf("the answer speaks of something else: %+v", d)
			}
		})
	}
}

func TestDecideRoundsRetryAfterUpToWholeSeconds(t *testing.T) {
	t.Parallel()
	const us = time.Microsecond
	for _, test := range []struct{ left, retry time.Duration }{
		{us, time.Second},
		{time.Second - us, time.Second},
		{time.Second, time.Second},
		{time.Second + us, 2 * time.Second},
		{59*time.Second + 500*time.Millisecond, time.Minute},
		{time.Minute, time.Minute},
		{time.Hour, time.Hour},
	} {
		d := decide(noon(), ledger(1, time.Hour-test.left), []service.Check{check(at(1, "alice"))}).Decisions[0]
		if !d.Blocked || d.RetryAfter() != test.retry {
			t.Errorf("%v until there is room: blocked = %v, retry after %v, want %v",
				test.left, d.Blocked, d.RetryAfter(), test.retry)
		}
	}
}

func TestDecideInAZoneShrunkBelowItsVelocity(t *testing.T) {
	t.Parallel()
	ages := []time.Duration{50 * time.Minute, 40 * time.Minute, 30 * time.Minute, 20 * time.Minute, 10 * time.Minute}
	for _, test := range []struct {
		rate  int
		retry time.Duration // until the rate-th newest leaves
	}{
		{5, 10 * time.Minute}, {4, 20 * time.Minute}, {3, 30 * time.Minute}, {2, 40 * time.Minute}, {1, 50 * time.Minute},
	} {
		d := decide(noon(), ledger(test.rate, ages...), []service.Check{check(at(1, "alice"))}).Decisions[0]
		v := d.Verdicts[0]
		if !d.Blocked || v.Velocity != test.rate || v.Remaining() != 0 || v.RetryAfter.Duration != test.retry {
			t.Errorf("rate %d with 5 txns: got %+v, want velocity at the rate and retry after %v", test.rate, v, test.retry)
		}
	}
}

func TestDecideRefusesChecksOfHeldBucketsAlone(t *testing.T) {
	t.Parallel()
	l := ledger(1)
	l.Held = map[service.Bucket]bool{at(1, "bob"): true, at(9, "eve"): true}
	checks := []service.Check{
		check(at(1, "alice"), at(1, "bob")), check(at(1, "bob")), check(at(1, "alice")), check(at(9, "eve")),
	}
	checks[1].AttemptID = "a"
	r := decide(noon(), l, checks)
	for i, want := range []error{service.ErrHeld, service.ErrHeld, nil, service.ErrNotFound} {
		if err := r.Decisions[i].Err; !errors.Is(err, want) {
			t.Errorf("check %d: %v, want %v", i, err, want)
		}
	}
	if len(r.Txns) != 1 || r.Decisions[2].Blocked {
		t.Errorf("txns %v, want that of alice alone: a refused check charges nothing", r.Txns)
	}
}

func TestDecideRefusesNewAttemptsWhileTheyAreHeld(t *testing.T) {
	t.Parallel()
	l := ledger(1)
	l.AttemptsHeld = true
	l.Attempts = map[string]service.Attempt{"known": service.NewAttempt(service.Decision{
		CheckedAt: service.At(noon()),
		Verdicts:  []service.Verdict{{Bucket: at(1, "bob"), TxnID: 7, Rate: 1, Window: service.Lasting(time.Hour)}},
	})}
	checks := []service.Check{check(at(1, "alice")), check(at(1, "bob")), check(at(1, "alice")), check(at(9, "eve"))}
	checks[0].AttemptID, checks[1].AttemptID, checks[3].AttemptID = "new", "known", "other"
	r := decide(noon(), l, checks)
	for i, want := range []error{service.ErrHeld, nil, nil, service.ErrNotFound} {
		if err := r.Decisions[i].Err; !errors.Is(err, want) {
			t.Errorf("check %d: %v, want %v", i, err, want)
		}
	}
	if len(r.Txns) != 1 || r.Txns[0].Bucket != at(1, "alice") || r.Decisions[2].Blocked {
		t.Errorf("txns %v, want that of the check without an id alone", r.Txns)
	}
}

func TestDecideLeavesTheLedgerAlone(t *testing.T) {
	t.Parallel()
	l := ledger(3, time.Minute, 2*time.Hour, 30*time.Minute)
	// Spare capacity, into which a careless append would write.
	l.Counted[at(1, "alice")] = append(make([]time.Time, 0, 16), l.Counted[at(1, "alice")]...)
	zones := maps.Clone(l.Zones)
	history := slices.Clone(l.Counted[at(1, "alice")])
	decide(noon(), l, []service.Check{
		check(at(1, "alice")), check(at(1, "alice"), at(1, "bob")), check(at(1, "alice")), check(at(9, "x")),
	})
	if !maps.Equal(l.Zones, zones) || len(l.Counted) != 1 || !slices.Equal(l.Counted[at(1, "alice")], history) {
		t.Errorf("ledger became %+v", l)
	}
	for i, instant := range l.Counted[at(1, "alice")][:16][len(history):] {
		if !instant.IsZero() {
			t.Errorf("wrote %v behind the end of the history, at %d", instant, i)
		}
	}
}
