package memory_test

import (
	"errors"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/memory"
)

// clocked is a Memory with a clock that the test moves.
type clocked struct {
	*memory.Store
	now time.Time
}

func newClocked() *clocked {
	c := &clocked{now: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)}
	c.Store = memory.NewAt(func() time.Time { return c.now })
	return c
}

func (c *clocked) check(t *testing.T, check service.Check) service.Decision {
	t.Helper()
	decisions, err := c.CheckAll(t.Context(), service.Call{Checks: []service.Check{check}})
	if err != nil || decisions[0].Err != nil {
		t.Fatalf("check: %v, %v", err, decisions)
	}
	return decisions[0]
}

func one(attemptID string, keys ...string) service.Check {
	c := service.Check{AttemptID: attemptID}
	for i, key := range keys {
		c.Buckets = append(c.Buckets, service.Bucket{ZoneID: int64(i + 1), Key: key})
	}
	return c
}

func TestMemoryForgetsAnAttemptAtTheVeryInstant(t *testing.T) {
	t.Parallel()
	for _, window := range []time.Duration{time.Minute, time.Hour} {
		c := newClocked()
		c.SetZone(t, service.Zone{ID: 1, Rate: 9, Window: window})
		c.SetZone(t, service.Zone{ID: 2, Rate: 9, Window: time.Minute})
		first := c.check(t, one("id", "a", "b"))
		c.now = first.CheckedAt.Add(max(window, service.MinAttemptLife) - time.Microsecond)
		if d := c.check(t, one("id", "a", "b")); d.TxnID() != first.TxnID() || !d.CheckedAt.Equal(first.CheckedAt.Time) {
			t.Errorf("window %v: a microsecond before the end: %+v", window, d)
		}
		c.now = c.now.Add(time.Microsecond)
		if d := c.check(t, one("id", "a", "b")); d.TxnID() == first.TxnID() || !d.CheckedAt.Equal(c.now) {
			t.Errorf("window %v: at the end: %+v", window, d)
		}
	}
}

func TestMemoryKeepsItsAnswersFromCallersHands(t *testing.T) {
	t.Parallel()
	c := newClocked()
	c.SetZone(t, service.Zone{ID: 1, Rate: 9, Window: time.Minute})
	for range 3 {
		d := c.check(t, one("id", "a"))
		if d.Verdicts[0].TxnID != 1 {
			t.Fatalf("got %+v", d)
		}
		d.Verdicts[0].TxnID = 99
	}
}

func TestMemoryTakesSuccessUntilReservationEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		after time.Duration
		want  error
	}{
		{0, nil},
		{time.Minute, nil},
		{time.Minute + time.Microsecond, service.ErrConflict},
	} {
		c := newClocked()
		c.SetZone(t, service.Zone{ID: 1, Rate: 9, Window: time.Hour, Counts: service.CountsFailures, ReserveTTL: time.Minute})
		d := c.check(t, one("", "a"))
		c.now = c.now.Add(test.after)
		errs, err := c.ReportAll(t.Context(), []service.Report{{TxnID: d.TxnID(), Outcome: service.OutcomeSuccess}})
		if err != nil || !errors.Is(errs[0], test.want) {
			t.Errorf("success after %v: got %v, %v, want %v", test.after, errs, err, test.want)
		}
	}
}

func TestMemoryRefusesStaleKeysAsAWhole(t *testing.T) {
	t.Parallel()
	c := newClocked()
	c.SetZone(t, service.Zone{ID: 1, Rate: 9, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsername}})
	stale, fresh, unknown := one("", "a"), one("", "a"), one("", "a")
	stale.KeyRules = []service.KeyRule{{}}
	fresh.KeyRules = []service.KeyRule{{Kind: service.KeyUsername, IPv4Prefix: 8}} // the same in words
	unknown.Buckets[0].ZoneID = 404
	unknown.KeyRules = []service.KeyRule{{Kind: service.KeyIP}}
	if d, err := c.CheckAll(t.Context(), service.Call{Checks: []service.Check{fresh, one("", "a"), stale}}); !errors.Is(
		err,
		service.ErrStaleKey) || d != nil {
		t.Errorf("got %+v, %v, want nothing but ErrStaleKey", d, err)
	}
	if txns := c.Txns(service.Bucket{ZoneID: 1, Key: "a"}); len(txns) != 0 {
		t.Errorf("a stale call recorded %+v", txns)
	}
	decisions, err := c.CheckAll(t.Context(), service.Call{Checks: []service.Check{fresh, one("", "a"), unknown}})
	if err != nil || decisions[0].Err != nil || decisions[1].Err != nil ||
		!errors.Is(decisions[2].Err, service.ErrNotFound) {
		t.Errorf("got %+v, %v, want the unknown zone alone refused", decisions, err)
	}
}
