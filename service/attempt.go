package service

import (
	"fmt"
	"slices"
	"time"
)

// Attempt is what is remembered of a check that had an AttemptID.
type Attempt struct {
	Decision Decision // as it was answered first
	// ExpiresAt is the first instant at which the id is forgotten.
	ExpiresAt time.Time
}

// NewAttempt returns what has to be remembered of a decision.
func NewAttempt(d Decision) Attempt {
	life := MinAttemptLife
	for _, v := range d.Verdicts {
		life = max(life, v.Window)
	}
	return Attempt{Decision: d, ExpiresAt: d.CheckedAt.Add(life)}
}

// repeat answers a check as the first check with its AttemptID was answered, which is in the
// ledger or earlier in this call. ok is false if the id is not remembered.
func (d *decider) repeat(i int, check Check) (repeated Decision, ok bool) {
	if first, ok := d.attempts[check.AttemptID]; ok {
		return d.ruling.Decisions[first].repeatFor(check), true
	}
	first, ok := d.ledger.Attempts[check.AttemptID]
	if !ok || !d.now.Before(first.ExpiresAt) {
		return Decision{}, false
	}
	d.ruling.retries = append(d.ruling.retries, i)
	return first.Decision.repeatFor(check), true
}

// repeatFor answers check as d was answered, with the verdicts in the order of
// check's buckets. It refuses other buckets with ErrConflict.
func (d Decision) repeatFor(check Check) Decision {
	verdicts := make([]Verdict, len(check.Buckets))
	for i, b := range check.Buckets {
		place := slices.IndexFunc(d.Verdicts, func(v Verdict) bool { return v.Bucket == b })
		if place < 0 || len(d.Verdicts) != len(check.Buckets) {
			return Decision{Err: fmt.Errorf("%w: attempt_id was used with other buckets", ErrConflict)}
		}
		verdicts[i] = d.Verdicts[place]
	}
	d.Verdicts = verdicts
	return d
}
