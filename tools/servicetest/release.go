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
		"ReleaseEndsALockoutAndForgetsIt": script(`
			zone 1 rate=1 window=1m lockout=1h
			check 1/bob -> pass
			check 1/bob -> block
			check 1/alice -> pass
			check 1/alice -> block wait=1h
			age 1/alice 1h
			check 1/alice -> pass
			check 1/alice -> block wait=2h
			release 1/alice
			peek 1/alice -> until=0s retry=0s left=1
			check 1/alice -> pass
			check 1/alice -> block wait=1h // the growth is forgotten
			check 1/bob -> block
		`),
		"ReleaseGivesAllPlacesBack": script(`
			zone 1 rate=2
			check 1/alice -> pass
			age 1/alice 2h
			2x check 1/alice -> pass
			check 1/alice -> block
			check 1/bob -> pass
			release 1/alice
			release 1/alice // and again
			count 1/alice -> 1 of 4 // the first did not count any more
			check 1/alice -> pass v=1
			check 1/bob -> v=2
		`),
		"ReleaseOfAKeyNeverSeen": script(`
			zone 1 rate=1 window=1m lockout=1h
			release 1/nobody
			count 1/nobody -> 0 of 0
			check 1/nobody -> pass
			check 1/nobody -> block wait=1h
			release 404/nobody -> unknown
		`),
		"ReleaseRacesWithChecks": releaseRacesWithChecks,
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
