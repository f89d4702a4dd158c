package servicetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"velocityd/service"
)

func releaseClaims() map[string]claim {
	return map[string]claim{
		"ReleaseEndsALockoutAndForgetsIt": releaseEndsALockout,
		"ReleaseGivesAllPlacesBack":       releaseGivesAllPlacesBack,
		"ReleaseOfAKeyNeverSeen":          releaseOfAKeyNeverSeen,
		"ReleaseRacesWithChecks":          releaseRacesWithChecks,
	}
}

func releaseEndsALockout(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour})
	alice, bob := at(1, "alice"), at(1, "bob")
	b.fill(t, bob)
	wantRetry(t, b.fill(t, alice), time.Hour, 0)
	b.Age(t, alice, time.Hour)
	wantRetry(t, b.fill(t, alice), 2*time.Hour, 0)
	b.release(t, alice)
	if peek := b.peek(t, alice); !peek.LockedUntil.IsZero() || peek.RetryAfter.Duration != 0 || peek.Remaining != 1 {
		t.Errorf("after the release: %+v", peek)
	}
	wantRetry(t, b.fill(t, alice), time.Hour, 0) // the growth is forgotten
	if d := b.check(t, bob); !d.Blocked {
		t.Errorf("another bucket was released: %+v", d)
	}
}

func releaseGivesAllPlacesBack(t *testing.T, b subject) {
	b.zone(t, 1, 2, time.Hour)
	alice := at(1, "alice")
	b.check(t, alice)
	b.Age(t, alice, 2*time.Hour)
	for range 3 {
		b.check(t, alice)
	}
	b.check(t, at(1, "bob"))
	b.release(t, alice)
	b.release(t, alice)                          // and again
	counted := []bool{true, false, false, false} // the first did not count any more
	for i, txn := range b.Txns(t, alice) {
		if txn.Counted != counted[i] || txn.Blocked != (i == 3) || txn.WouldBlock != (i == 3) {
			t.Errorf("txn %d of 4 after the release: %+v", i+1, txn)
		}
	}
	if d := b.check(t, alice); d.Blocked || d.Verdicts[0].Velocity != 1 {
		t.Errorf("after the release: %+v", d)
	}
	if d := b.check(t, at(1, "bob")); d.Verdicts[0].Velocity != 2 {
		t.Errorf("another bucket was released: %+v", d)
	}
}

func releaseOfAKeyNeverSeen(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour})
	b.release(t, at(1, "nobody"))
	if txns := b.Txns(t, at(1, "nobody")); len(txns) != 0 {
		t.Errorf("a release recorded %+v", txns)
	}
	wantRetry(t, b.fill(t, at(1, "nobody")), time.Hour, 0)
	if err := b.Release(t.Context(), at(404, "nobody"), "operator", "exercise"); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("unknown zone: %v, want ErrNotFound", err)
	}
}

func releaseRacesWithChecks(t *testing.T, b subject) {
	const callers, rate, releases = 100, 4, 5
	b.set(t, service.Zone{ID: 1, Rate: rate, Window: time.Hour, Lockout: time.Hour})
	alice := at(1, "alice")
	errs := make([]error, releases)
	var operators sync.WaitGroup
	for i := range releases {
		operators.Go(func() { errs[i] = b.Release(context.Background(), alice, "operator", "exercise") })
	}
	decisions := b.together(t, callers, func(int) service.Check { return one(1, "alice") })
	operators.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if allowed := allowedOf(decisions); allowed < rate || allowed > rate*(releases+1) {
		t.Errorf("allowed %d, want %d to %d with %d releases", allowed, rate, rate*(releases+1), releases)
	}
	if recorded, counted := b.counted(t, alice); recorded != callers || counted > rate {
		t.Errorf("recorded %d, counted %d, want %d and at most %d", recorded, counted, callers, rate)
	}
	b.release(t, alice)
	for range rate {
		if d := b.check(t, alice); d.Blocked {
			t.Errorf("after the last release: %+v", d)
		}
	}
}
