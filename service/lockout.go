package service

import (
	"math"
	"time"
)

// Lockout is the last lockout of a bucket. The zero value means that there was none.
type Lockout struct {
	// Until is the first instant at which the bucket is not locked.
	Until time.Time
	// Length is its duration, in microseconds' precision.
	Length time.Duration
	// Shadow says that it began while its zone only watched. It does not bind once the zone is
	// enforced, and the next one there does not grow from it.
	Shadow bool
}

// locks says that the bucket is locked at now, in a zone as it is now: a zone
// whose lockout was switched off locks nothing any more.
func (l Lockout) locks(now time.Time, zone Zone) bool {
	return zone.Lockout > 0 && now.Before(l.Until)
}

// next returns the lockout that begins at now, in a zone with every setting spelt out. If the last
// one ended at most LockoutDecay ago, the new one is LockoutFactor times as long. Nothing can
// overflow, because Length is at most MaxWindow and the factor at most MaxLockoutFactor.
func (l Lockout) next(now time.Time, zone Zone) Lockout {
	length := zone.Lockout
	if l.Length > 0 && !now.After(l.Until.Add(zone.LockoutDecay)) {
		length = l.Length / time.Microsecond * time.Duration(zone.lockoutPercent()) / 100 * time.Microsecond
	}
	length = min(length, zone.LockoutMax)
	return Lockout{Until: now.Add(length), Length: length, Shadow: zone.Mode != ModeEnforce}
}

// Locked is a lockout that begins in a zone that enforces.
type Locked struct {
	Bucket Bucket
	Until  time.Time
	// TxnID is the id of the txn with which it begins, or its place: see PlaceOf.
	TxnID uint64
}

// Locked returns the lockouts that begin and lock, in the order of the checks. Those of zones that only watch are not
// among them. After Number, all have the ids of their txns.
func (r *Ruling) Locked() (list []Locked) {
	if len(r.Lockouts) == 0 {
		return nil
	}
	for _, i := range r.Recorded {
		for _, v := range r.Decisions[i].Verdicts {
			if lockout, begins := r.Lockouts[v.Bucket]; begins && v.Blocked && v.Reason == ReasonLockout {
				list = append(list, Locked{v.Bucket, lockout.Until, v.TxnID})
			}
		}
	}
	return list
}

// lockoutPercent is LockoutFactor in hundredths.
func (z Zone) lockoutPercent() int64 { return int64(math.Round(z.LockoutFactor * 100)) }
