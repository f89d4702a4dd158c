package memory_test

import (
	"errors"
	"net/netip"
	"slices"
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
		if d := c.check(t, one("id", "a", "b")); d.TxnID() != first.TxnID() || !d.CheckedAt.Equal(first.CheckedAt) {
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

func TestMemoryTakesASuccessUntilTheVeryEndOfTheReservation(t *testing.T) {
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
	if d, err := c.CheckAll(t.Context(), service.Call{Checks: []service.Check{fresh, one("", "a"), stale}}); !errors.Is(err,
		service.ErrStaleKey) || d != nil {
		t.Errorf("got %+v, %v, want nothing but ErrStaleKey", d, err)
	}
	if txns := c.Txns(service.Bucket{ZoneID: 1, Key: "a"}); len(txns) != 0 {
		t.Errorf("a stale call recorded %+v", txns)
	}
	decisions, err := c.CheckAll(t.Context(), service.Call{Checks: []service.Check{fresh, one("", "a"), unknown}})
	if err != nil || decisions[0].Err != nil || decisions[1].Err != nil || !errors.Is(decisions[2].Err, service.ErrNotFound) {
		t.Errorf("got %+v, %v, want the unknown zone alone refused", decisions, err)
	}
}

func TestMemoryWritesZonesAgainstTheirRevision(t *testing.T) {
	t.Parallel()
	c := newClocked()
	four := service.Zone{ID: 1, Rate: 5, Window: time.Minute, Revision: 77}
	for _, step := range []struct {
		name     string
		match    service.Match
		want     error
		revision uint64
	}{
		{"one that must be there is not", service.Match{Present: true}, service.ErrPrecondition, 0},
		{"nor at a revision", service.Match{Revision: 1}, service.ErrPrecondition, 0},
		{"created", service.Match{Absent: true}, nil, 1},
		{"created again", service.Match{Absent: true}, service.ErrPrecondition, 0},
		{"replaced whatever it was", service.Match{}, nil, 2},
		{"replaced as it was seen", service.Match{Revision: 2}, nil, 3},
		{"replaced as it was before", service.Match{Revision: 2}, service.ErrPrecondition, 0},
		{"replaced if there", service.Match{Present: true}, nil, 4},
	} {
		zone, err := c.PutZone(t.Context(), four, step.match, "somebody")
		if !errors.Is(err, step.want) {
			t.Fatalf("%s: got %v, want %v", step.name, err, step.want)
		}
		want := four.WithDefaults()
		want.Revision = step.revision
		if err == nil && zone != want {
			t.Errorf("%s: got %+v, want %+v", step.name, zone, want)
		}
	}
	if _, err := c.PutZone(t.Context(), service.Zone{ID: 2}, service.Match{}, ""); !errors.Is(err, service.ErrInvalid) {
		t.Errorf("an invalid zone: %v, want ErrInvalid", err)
	}
	for _, step := range []struct {
		match service.Match
		want  error
	}{
		{service.Match{Revision: 3}, service.ErrPrecondition},
		{service.Match{Revision: 4}, nil},
		{service.Match{}, service.ErrNotFound},
	} {
		if err := c.DeleteZone(t.Context(), 1, step.match, "somebody"); !errors.Is(err, step.want) {
			t.Errorf("delete %+v: got %v, want %v", step.match, err, step.want)
		}
	}
	audits := c.Audits()
	if len(audits) != 5 || audits[4].Action != "delete zone" || audits[4].Principal != "somebody" || !audits[4].At.Equal(c.now) {
		t.Errorf("audited %+v, want four puts and a deletion", audits)
	}
}

func TestMemoryKeepsOneOverrideForEachTarget(t *testing.T) {
	t.Parallel()
	c := newClocked()
	c.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
	network := netip.MustParsePrefix("203.0.113.0/24")
	denied := service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, ExpiresAt: c.now.Add(time.Minute)}
	add := func(o service.Override, want error) service.Override {
		t.Helper()
		added, err := c.AddOverride(t.Context(), o, "operator")
		if !errors.Is(err, want) {
			t.Fatalf("add %+v: got %v, want %v", o, err, want)
		}
		return added
	}
	first := add(denied, nil)
	if first.ID != 1 || first.CreatedBy != "operator" {
		t.Errorf("added %+v", first)
	}
	add(denied, service.ErrConflict)
	prefix := denied
	prefix.Key, prefix.Prefix, prefix.CreatedBy = "", network, "somebody else"
	if second := add(prefix, nil); second.ID != 2 || second.CreatedBy != "somebody else" {
		t.Errorf("added %+v", second)
	}
	c.now = denied.ExpiresAt
	again := denied
	again.ExpiresAt = time.Time{}
	third := add(again, nil) // the first has expired
	add(again, service.ErrConflict)
	if _, err := c.Override(t.Context(), 1, first.ID); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("the expired one: %v, want ErrNotFound", err)
	}
	add(service.Override{ZoneID: 404, Key: "a", Action: service.OverrideDeny}, service.ErrNotFound)
	add(service.Override{ZoneID: 1, Key: "a"}, service.ErrInvalid)
	third.Key, third.CreatedBy, third.Action = "", "", service.OverrideAllow
	third.Prefix = network // whose override has expired as well
	if set, err := c.SetOverride(t.Context(), third, "operator"); err != nil || set.CreatedBy != "operator" || set.ID != third.ID {
		t.Errorf("set %+v: %+v, %v", third, set, err)
	}
	all, err := c.Overrides(t.Context(), 1, 0, 10)
	if err != nil || len(all) != 1 || all[0].Prefix != network || all[0].Action != service.OverrideAllow {
		t.Errorf("left are %+v, %v", all, err)
	}
	fourth := add(again, nil)
	fourth.Key, fourth.Prefix = "", network
	if _, err := c.SetOverride(t.Context(), fourth, ""); !errors.Is(err, service.ErrConflict) {
		t.Errorf("set to the target of another: %v, want ErrConflict", err)
	}
	third.ID = 99
	if _, err := c.SetOverride(t.Context(), third, ""); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("set an unknown one: %v, want ErrNotFound", err)
	}
}

func TestMemoryListsOverridesByID(t *testing.T) {
	t.Parallel()
	c := newClocked()
	c.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
	c.SetZone(t, service.Zone{ID: 2, Rate: 5, Window: time.Minute})
	for i, key := range []string{"a", "b", "c", "d", "e"} {
		o := service.Override{ZoneID: int64(1 + i%2), Key: key, Action: service.OverrideAllow}
		if _, err := c.AddOverride(t.Context(), o, ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		after uint64
		limit int
		want  []string
	}{
		{0, 10, []string{"a", "c", "e"}},
		{0, 2, []string{"a", "c"}},
		{1, 1, []string{"c"}},
		{3, 10, []string{"e"}},
		{5, 10, nil},
	} {
		overrides, err := c.Overrides(t.Context(), 1, test.after, test.limit)
		var keys []string
		for _, o := range overrides {
			keys = append(keys, o.Key)
		}
		if err != nil || !slices.Equal(keys, test.want) {
			t.Errorf("after %d, at most %d: got %v, %v, want %v", test.after, test.limit, keys, err, test.want)
		}
	}
	if _, err := c.Overrides(t.Context(), 404, 0, 10); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("unknown zone: %v, want ErrNotFound", err)
	}
	if err := c.DeleteOverride(t.Context(), 2, 1, ""); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("delete one of another zone: %v, want ErrNotFound", err)
	}
	if err := c.DeleteOverride(t.Context(), 1, 1, "operator"); err != nil {
		t.Error(err)
	}
	if err := c.DeleteZone(t.Context(), 1, service.Match{}, ""); err != nil {
		t.Error(err)
	}
	if _, err := c.Override(t.Context(), 1, 3); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("override of a deleted zone: %v, want ErrNotFound", err)
	}
}

func TestMemoryAuditsReleases(t *testing.T) {
	t.Parallel()
	c := newClocked()
	c.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
	if err := c.Release(t.Context(), service.Bucket{ZoneID: 1, Key: "a"}, "operator", "called in"); err != nil {
		t.Fatal(err)
	}
	want := memory.Audit{At: c.now, ZoneID: 1, Action: "release bucket", Key: "a", Principal: "operator", Reason: "called in"}
	if got := c.Audits(); len(got) != 1 || got[0] != want {
		t.Errorf("audited %+v, want %+v", got, want)
	}
}
