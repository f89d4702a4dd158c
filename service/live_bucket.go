package service

import (
	"cmp"
	"slices"
	"time"
)

// liveBucket is the running state of one bucket in one call of Decide.
type liveBucket struct {
	zone     *Zone
	override *Override // in force, or nil
	// rate and term are the zone's or the override's.
	rate   int
	term   Term
	counts bool // attempts take places: not where the zone is off, or all are allowed or denied
	// velocity counts the txns now, at most rate; oldest is the time of the oldest of them. At velocity
	// rate, room comes when that one does not count any more.
	velocity int
	oldest   time.Time
	open     *openAttempts // in a zone with Concurrent, or nil
	tried    *triedSecrets

	lockout       Lockout
	lockoutBegins bool

	series  *Series // or nil
	repeats int     // the place, from 1, of the repeats of its last txn in the ruling; 0: there are none
}

// judge answers for the bucket before the check is charged. See wait.
func (b *liveBucket) judge(now time.Time, bucket Bucket, mayLock bool) Verdict {
	v := Verdict{Bucket: bucket, Rate: b.rate, Window: Lasting(b.term.Window), Unmetered: !b.counts, Velocity: b.velocity}
	if b.counts {
		v.ResetAfter.Duration = b.term.resetAfter(now)
	}
	wait, reason := b.wait(now, mayLock)
	v.WouldBlock, v.Reason = wait > 0, reason
	if reason == ReasonDenied {
		v.OverrideID = b.override.ID
	}
	v.Blocked = v.WouldBlock && b.zone.Mode == ModeEnforce
	if v.Blocked {
		v.RetryAfter.Duration = roundUp(wait)
	}
	return v
}

// wait returns the time until an attempt would pass, and the reason: 0 and no reason if it passes now. An
// attempt that finds the bucket full begins a lockout, if the zone has any and the attempt mayLock.
func (b *liveBucket) wait(now time.Time, mayLock bool) (wait time.Duration, reason Reason) {
	switch {
	case b.zone.Mode == ModeOff:
		return 0, ""
	case b.override == nil || b.override.Action == OverrideLimit:
	case b.override.Action == OverrideAllow:
		return 0, ""
	case b.override.ExpiresAt.IsZero(): // denied for ever
		return b.term.Window, ReasonDenied
	default:
		return b.override.ExpiresAt.Sub(now), ReasonDenied
	}
	if b.velocity >= b.rate {
		if wait, reason = b.term.Window, ReasonFull; b.rate > 0 {
			wait = b.term.Until(b.oldest).Sub(now)
		}
	}
	if untilOne := b.open.wait(now, b.zone); untilOne > 0 {
		wait, reason = max(wait, untilOne), cmp.Or(reason, ReasonConcurrent)
	}
	if b.lockout.locks(now, *b.zone) {
		return max(wait, b.lockout.Until.Sub(now)), ReasonLocked
	}
	if reason == ReasonFull && mayLock && b.zone.Lockout > 0 {
		b.lockout, b.lockoutBegins = b.lockout.next(now, *b.zone), true
		return max(wait, b.lockout.Until.Sub(now)), ReasonLockout
	}
	return wait, reason
}

// charge counts one more txn.
func (b *liveBucket) charge(now time.Time) {
	if b.velocity == 0 || now.Before(b.oldest) {
		b.oldest = now
	}
	b.velocity++
	b.open.charge(now)
}

// countAfter returns how many of the instants are after since, at most rate, and the
// oldest of the newest rate of them.
func countAfter(since time.Time, rate int, counted []time.Time) (velocity int, oldest time.Time) {
	for _, at := range counted {
		if !at.After(since) {
			continue
		}
		if velocity == 0 || at.Before(oldest) {
			oldest = at
		}
		velocity++
	}
	if velocity <= rate {
		return velocity, oldest
	}
	// The zone was narrowed: only the newest of them matter.
	newest := slices.SortedFunc(slices.Values(counted), func(a, b time.Time) int { return b.Compare(a) })
	if rate > 0 {
		oldest = newest[rate-1]
	}
	return rate, oldest
}

// roundUp returns d in whole seconds, rounded up.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}
