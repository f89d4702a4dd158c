package service

import (
	"fmt"
	"time"
)

// PeekTxns bounds the txns of a Peek, the newest of its bucket.
const PeekTxns = 10

// Peek is the view of a bucket without an attempt. A key that was never seen looks like one that has been
// idle for long.
type Peek struct {
	Bucket
	// At is the engine's clock, UTC.
	At   Instant `json:"checked_at"`
	Mode Mode    `json:"mode"`
	// Rate and Window are the limit of the zone or of the override.
	Rate   int      `json:"rate"`
	Window Duration `json:"window"`
	// Unmetered says that no limit would decide: the zone is off, or an override allows or denies.
	// Then Velocity and Remaining are 0 and mean nothing, and JSON leaves them out.
	Unmetered bool `json:"-"`
	Velocity  int  `json:"velocity"` // at most Rate
	// Remaining, RetryAfter and Reason hold for the next attempt; in a shadow zone as if it were enforced.
	// RetryAfter is 0 if it would pass.
	Remaining  int      `json:"remaining"`
	RetryAfter Duration `json:"retry_after"`
	// ResetAfter is as that of a Verdict.
	ResetAfter Duration `json:"reset_after,omitzero"`
	Reason     Reason   `json:"reason,omitzero"` // why it would not pass
	// LockedUntil is the zero time unless the bucket is locked now and a limit decides.
	LockedUntil Instant `json:"locked_until,omitzero"`
	// Override is the one in force, or nil.
	Override *Override `json:"override,omitzero"`
	// Txns are the newest of the bucket, newest first, at most PeekTxns.
	Txns []Txn `json:"txns"`
}

// NewPeek returns the view of a ledger of one bucket at now, without the Txns. It asks Decide about the
// next attempt, and records nothing. The error wraps ErrNotFound if the ledger does not have the zone, and
// ErrInvalid for a clear key in a zone with key_form hmac.
func NewPeek(now time.Time, ledger Ledger, bucket Bucket) (Peek, error) {
	_, exists := ledger.Zones[bucket.ZoneID]
	if !exists {
		return Peek{}, fmt.Errorf("zone %d: %w", bucket.ZoneID, ErrNotFound)
	}
	checks := []Check{{Buckets: []Bucket{bucket}}}
	if err := StaleKey(ledger.Zones, checks); err != nil {
		return Peek{}, err
	}
	live := newDecider(now, ledger, checks).openBucket(bucket, ledger.Buckets[0])
	peek := Peek{Bucket: bucket, At: At(now), Mode: live.zone.Mode}
	if live.override != nil {
		peek.Override = new(*live.override)
	}
	if live.counts && live.lockout.locks(now, *live.zone) {
		peek.LockedUntil.Time = live.lockout.Until
	}
	v := live.judge(now, bucket, true)
	wait, _ := live.wait(now, true) // also in a zone that blocks nobody
	peek.Rate, peek.Window, peek.RetryAfter.Duration, peek.Reason = v.Rate, v.Window, roundUp(wait), v.Reason
	peek.Unmetered, peek.Velocity, peek.Remaining, peek.ResetAfter = v.Unmetered, v.Velocity, v.Remaining(), v.ResetAfter
	return peek, nil
}

// Verdict returns the verdict that the next attempt would get if it were decided now: without a txn, and with the
// velocity as it is.
func (p Peek) Verdict() Verdict {
	v := Verdict{
		Bucket: p.Bucket, WouldBlock: p.Reason != "", Reason: p.Reason, Rate: p.Rate, Window: p.Window,
		Unmetered: p.Unmetered, Velocity: p.Velocity, ResetAfter: p.ResetAfter,
	}
	if v.Blocked = v.WouldBlock && p.Mode == ModeEnforce; v.Blocked {
		v.RetryAfter = p.RetryAfter
	}
	if p.Override != nil && p.Reason == ReasonDenied {
		v.OverrideID = p.Override.ID
	}
	return v
}
