package api

import (
	"velocityd/service"
)

// Bucket names one key of a zone.
type Bucket struct {
	ZoneID    int64  `json:"zone_id"`
	BucketKey string `json:"bucket_key"`
}

// Check is the body of POST /v1/check, in the form that lists its buckets.
type Check struct {
	Buckets    []Bucket `json:"buckets"`
	AttemptID  string   `json:"attempt_id,omitzero"`
	SecretHash string   `json:"secret_hash,omitzero"`
}

// Checks is the body of POST /v1/checks.
type Checks struct {
	Checks []Check `json:"checks"`
}

// NewCheck returns the request that asks a check.
func NewCheck(check service.Check) Check {
	c := Check{Buckets: make([]Bucket, len(check.Buckets)), AttemptID: check.AttemptID, SecretHash: check.SecretHash}
	for i, b := range check.Buckets {
		c.Buckets[i] = Bucket{ZoneID: b.ZoneID, BucketKey: b.Key}
	}
	return c
}

// Decision is the answer for a whole check. A degraded one, which was given without the
// database, has no TxnID and no CheckedAt.
type Decision struct {
	Blocked    bool      `json:"blocked"`
	WouldBlock bool      `json:"would_block"`
	Degraded   bool      `json:"degraded,omitzero"`
	TxnID      ID        `json:"txn_id,omitzero"`
	RetryAfter int64     `json:"retry_after"`
	CheckedAt  Instant   `json:"checked_at,omitzero"`
	Buckets    []Verdict `json:"buckets"`
}

// Verdict is the answer for one bucket of a check. It has no Velocity and Remaining where no limit
// decided, and in a degraded decision no TxnID either.
type Verdict struct {
	ZoneID     int64          `json:"zone_id"`
	BucketKey  string         `json:"bucket_key"`
	Blocked    bool           `json:"blocked"`
	WouldBlock bool           `json:"would_block"`
	Reason     service.Reason `json:"reason,omitzero"`
	OverrideID ID             `json:"override_id,omitzero"`
	TxnID      ID             `json:"txn_id,omitzero"`
	Rate       int            `json:"rate"`
	Window     int64          `json:"window"`
	Velocity   *int           `json:"velocity,omitzero"`
	Remaining  *int           `json:"remaining,omitzero"`
	RetryAfter int64          `json:"retry_after"`
	ResetAfter int64          `json:"reset_after,omitzero"`
}

// Results is the answer of POST /v1/checks: element i answers check i.
type Results struct {
	Results []Result `json:"results"`
}

// Result is the answer of one of several checks. Exactly one member is set.
type Result struct {
	Decision *Decision `json:"decision,omitzero"`
	Problem  *Problem  `json:"problem,omitzero"`
}

// NewDecision returns the answer for a check that was decided, or answered without the database.
func NewDecision(d service.Decision) Decision {
	answer := Decision{
		Blocked: d.Blocked, WouldBlock: d.WouldBlock, Degraded: d.Degraded, TxnID: ID(d.TxnID()),
		RetryAfter: service.WholeSeconds(d.RetryAfter()), CheckedAt: Instant(d.CheckedAt.Time), Buckets: make([]Verdict, len(d.Verdicts)),
	}
	for i, v := range d.Verdicts {
		answer.Buckets[i] = Verdict{
			ZoneID: v.Bucket.ZoneID, BucketKey: v.Bucket.Key, Blocked: v.Blocked, WouldBlock: v.WouldBlock,
			Reason: v.Reason, OverrideID: ID(v.OverrideID), TxnID: ID(v.TxnID),
			Rate: v.Rate, Window: service.WholeSeconds(v.Window.Duration), RetryAfter: service.WholeSeconds(v.RetryAfter.Duration),
			ResetAfter: service.WholeSeconds(v.ResetAfter.Duration),
		}
		if !d.Degraded && !v.Unmetered {
			remaining := v.Remaining()
			answer.Buckets[i].Velocity, answer.Buckets[i].Remaining = &v.Velocity, &remaining
		}
	}
	return answer
}

// Decision converts the answer to the type of package service. The buckets give the txn and retry_after of
// the whole, and the remaining attempts. Without a known velocity, nothing remains.
func (d Decision) Decision() service.Decision {
	decision := service.Decision{
		Blocked: d.Blocked, WouldBlock: d.WouldBlock, Degraded: d.Degraded, CheckedAt: service.At(d.CheckedAt.Time()),
		Verdicts: make([]service.Verdict, len(d.Buckets)),
	}
	for i, v := range d.Buckets {
		decision.Verdicts[i] = service.Verdict{
			Bucket: service.Bucket{ZoneID: v.ZoneID, Key: v.BucketKey}, Blocked: v.Blocked, WouldBlock: v.WouldBlock,
			Reason: v.Reason, OverrideID: uint64(v.OverrideID), TxnID: uint64(v.TxnID),
			Rate: v.Rate, Window: service.Lasting(service.Seconds(v.Window)), Velocity: v.Rate, RetryAfter: service.Lasting(service.Seconds(v.RetryAfter)),
			ResetAfter: service.Lasting(service.Seconds(v.ResetAfter)),
		}
		if v.Velocity != nil {
			decision.Verdicts[i].Velocity = *v.Velocity
		} else if !d.Degraded {
			decision.Verdicts[i].Unmetered, decision.Verdicts[i].Velocity = true, 0
		}
	}
	return decision
}
