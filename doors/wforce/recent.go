package wforce

import (
	"cmp"
	"crypto/rand"
	"sync"
	"time"

	"velocityd/service"
)

const (
	// mostRecent bounds the attempts that are remembered of attemptLife: 8,700 logins a second.
	mostRecent = 1 << 18
	// mostUses is how often Dovecot checks an attempt: before it looks at the password, and after a right one.
	mostUses = 2
	// mostLate bounds the reports under way that go on when their caller leaves.
	mostLate = 1 << 10
)

// recentAttempts remembers the attempts of this instance, for attemptLife and at most twice as long. It is stricter
// than the database, and never laxer: it keeps guesses that come at once, or whose report was lost, from passing as one
// attempt.
type recentAttempts struct {
	mu       sync.Mutex
	turnedAt time.Time
	young    map[attempt]recentAttempt
	old      map[attempt]recentAttempt
}

// recentAttempt is the memory of an attempt.
type recentAttempt struct {
	uses     int8
	reported bool   // by this instance, or reported and lost
	id       string // of an attempt without a look at the database: see useOffline
}

// isUsedUp reports whether the attempt must not be checked again.
func (n recentAttempt) isUsedUp() bool { return n.reported || n.uses >= mostUses }

// use counts one check of the attempt. It returns false if there may be no more.
func (n *recentAttempt) use() bool {
	n.uses++
	return !n.reported && n.uses <= mostUses
}

// of returns the memory of an attempt. The lock must be held.
func (n *recentAttempts) of(a attempt) recentAttempt {
	if now := time.Now(); now.Sub(n.turnedAt) > attemptLife {
		if n.old = n.young; now.Sub(n.turnedAt) > 2*attemptLife {
			n.old = nil
		}
		n.young, n.turnedAt = map[attempt]recentAttempt{}, now
	}
	if found, ok := n.young[a]; ok {
		return found
	}
	return n.old[a]
}

// look returns the memory of an attempt.
func (n *recentAttempts) look(a attempt) recentAttempt {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.of(a)
}

// useOffline counts one check of an attempt of a tuple without a look at the database, and returns its id. It is
// random: the database may know the other ids of the tuple, and would answer them as before. These attempts are
// numbered from -1 downwards.
func (n *recentAttempts) useOffline(first attempt) (id string, err error) {
	for a := (attempt{tuple: first.tuple, k: -1}); ; a.k-- {
		isFree, err := n.change(a, func(found *recentAttempt) bool {
			found.id = cmp.Or(found.id, rand.Text())
			id = found.id
			return found.use()
		})
		if isFree || err != nil {
			return id, err
		}
	}
}

// reportOffline remembers a report about the first attempt of a tuple that useOffline returned and that has no report
// yet. It returns its id, or "".
func (n *recentAttempts) reportOffline(first attempt) (id string) {
	for a := (attempt{tuple: first.tuple, k: -1}); ; a.k-- {
		isKnown := false
		isFirst, err := n.change(a, func(found *recentAttempt) bool {
			wasReported := found.reported
			id, isKnown, found.reported = found.id, found.uses > 0, true
			return isKnown && !wasReported
		})
		switch {
		case isFirst:
			return id
		case !isKnown || err != nil:
			return ""
		}
	}
}

// report remembers a report about the attempt. It returns false if there was one before.
func (n *recentAttempts) report(a attempt) (bool, error) {
	return n.change(a, func(found *recentAttempt) bool {
		wasReported := found.reported
		found.reported = true
		return !wasReported
	})
}

// change keeps the changed memory of an attempt if change returns true. The error wraps service.ErrBusy if too many
// attempts are remembered.
func (n *recentAttempts) change(a attempt, change func(*recentAttempt) bool) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := n.of(a)
	if !change(&found) {
		return false, nil
	}
	if _, isYoung := n.young[a]; !isYoung && len(n.young) >= mostRecent {
		return false, service.NewBusyError(service.BusyRetryAfter, "too many logins at once")
	}
	n.young[a] = found
	return true, nil
}
