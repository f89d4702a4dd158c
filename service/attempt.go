package service

import (
	"fmt"
	"slices"
)

// Attempt is the remembered answer to a check with an AttemptID.
type Attempt struct {
	Decision Decision // as it was answered first
	// ExpiresAt is the first instant at which the id is forgotten.
	ExpiresAt Instant
}

// NewAttempt returns the part of a decision that must be remembered.
func NewAttempt(d Decision) Attempt {
	life := MinAttemptLife
	for _, v := range d.Verdicts {
		life = max(life, v.Window.Duration)
	}
	return Attempt{Decision: d, ExpiresAt: At(d.CheckedAt.Add(life))}
}

// repeat answers a check as the first check with its AttemptID was answered, which is in the
// ledger or earlier in this call. ok is false if the id is not remembered.
func (d *decider) repeat(check Check) (repeated Decision, ok bool) {
	if first, ok := d.attempts[check.AttemptID]; ok {
		return d.ruling.Decisions[first].repeatFor(check), true
	}
	first, ok := d.ledger.Attempts[check.AttemptID]
	if !ok || !d.now.Before(first.ExpiresAt.Time) {
		return Decision{}, false
	}
	return first.Decision.repeatFor(check), true
}

// repeatFor answers check as d was answered, with the verdicts in the order of check's buckets. It refuses
// other buckets with ErrConflict. One pseudonym of a bucket is enough: the first check may have come before
// the newest secret key, or this one after the end of the oldest.
func (d Decision) repeatFor(check Check) Decision {
	verdicts := make([]Verdict, len(check.Buckets))
	matched := 0
	for i, b := range check.Buckets {
		place := d.placeOf(b)
		if place >= 0 {
			matched++
		} else {
			place = d.placeOfAny(check.pseudonymsBeside(i))
		}
		if place < 0 {
			return Decision{Err: errOtherBuckets()}
		}
		verdicts[i] = d.Verdicts[place]
	}
	for _, v := range d.Verdicts {
		if check.lacksKeyOf(v.Bucket) {
			matched++
		}
	}
	if matched != len(d.Verdicts) {
		return Decision{Err: errOtherBuckets()}
	}
	d.Verdicts = verdicts
	return d
}

func errOtherBuckets() error {
	return fmt.Errorf("%w: attempt_id was used with other buckets", ErrConflict)
}

// placeOf returns the place of the verdict on a bucket, or -1.
func (d Decision) placeOf(bucket Bucket) int {
	return slices.IndexFunc(d.Verdicts, func(v Verdict) bool { return v.Bucket == bucket })
}

// placeOfAny returns the place of the verdict on one of the buckets, or -1.
func (d Decision) placeOfAny(buckets []Bucket) int {
	return slices.IndexFunc(d.Verdicts, func(v Verdict) bool { return slices.Contains(buckets, v.Bucket) })
}

// pseudonymsBeside returns all pseudonyms of the bucket that c.Buckets[i] stands for, if it has
// several.
func (c Check) pseudonymsBeside(i int) []Bucket {
	for first, end := range c.groups {
		if first <= i && i < end {
			return c.Buckets[first:end]
		}
	}
	return nil
}

// lacksKeyOf says that a bucket is a pseudonym by a secret key that was not there when the
// pseudonyms of the check were made.
func (c Check) lacksKeyOf(bucket Bucket) bool {
	id, inZone := KeyIDOf(bucket.Key), false
	for i, rule := range c.KeyRules {
		if b := c.Buckets[i]; rule.hides() && b.ZoneID == bucket.ZoneID {
			inZone = true
			if KeyIDOf(b.Key) == id {
				return false
			}
		}
	}
	return inZone && id != ""
}
