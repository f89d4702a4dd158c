package service

import (
	"fmt"
	"slices"
)

// Recall is all that is known of an attempt by its id.
type Recall struct {
	AttemptID string  `json:"attempt_id"`
	ExpiresAt Instant `json:"expires_at"` // as that of Attempt
	// Outcome is how the login ended, or empty without a report.
	Outcome  Outcome  `json:"outcome,omitzero"`
	Decision Decision `json:"decision"` // as it was answered first
	// Txns are those txns of the verdicts that still exist, in their order, as they are now. In a zone with
	// RecordBlocked the txn of a blocked attempt may stand for others, too, and carry another attempt id.
	Txns []Txn `json:"txns"`
}

// NewRecall returns the answer and the txns of an attempt. Of several pseudonyms of one bucket, the answer is that for
// the first one, as for the caller of the check. found are the txns that have ids of the answer; one that
// belongs to another check is left out.
func NewRecall(id string, attempt Attempt, found []Txn) Recall {
	var verdicts []Verdict
	var txns []Txn
	for _, v := range attempt.Decision.Verdicts {
		isHere := func(earlier Verdict) bool { return earlier.TxnID == v.TxnID } // as pseudonyms of one bucket have it
		if slices.ContainsFunc(verdicts, isHere) {
			continue
		}
		verdicts = append(verdicts, v)
		isOf := func(t Txn) bool { return t.ID == v.TxnID && t.Bucket == v.Bucket }
		if i := slices.IndexFunc(found, isOf); i >= 0 {
			txns = append(txns, found[i])
		}
	}
	attempt.Decision.Verdicts = verdicts
	recall := Recall{AttemptID: id, ExpiresAt: attempt.ExpiresAt, Decision: attempt.Decision, Txns: txns}
	if i := slices.IndexFunc(txns, func(t Txn) bool { return t.Outcome != "" }); i >= 0 {
		recall.Outcome = txns[i].Outcome
	}
	return recall
}

// Zones returns the zones of all buckets of the check. One may be there several times.
func (d Decision) Zones() []int64 {
	zones := make([]int64, len(d.Verdicts))
	for i, v := range d.Verdicts {
		zones[i] = v.Bucket.ZoneID
	}
	return zones
}

// ValidateAttemptID returns an ErrInvalid unless id can name an attempt.
func ValidateAttemptID(id string) error {
	if id == "" {
		return NewFieldError("attempt_id", "must not be empty")
	}
	return validateAttemptID(id)
}

// OneAttempt returns the attempt that is remembered under an id. The error wraps ErrNotFound if there is none,
// and ErrConflict if there are several, as on a store of shards.
func OneAttempt(remembered []Attempt) (Attempt, error) {
	switch len(remembered) {
	case 0:
		return Attempt{}, NoAttempt()
	case 1:
		return remembered[0], nil
	}
	return Attempt{}, fmt.Errorf("%w: attempt_id was used with other buckets, so it names several attempts: name the txn",
		ErrConflict)
}

// NoAttempt returns the ErrNotFound of an id that is not remembered. It does NOT name the id, which is the
// secret of its caller.
func NoAttempt() error {
	return fmt.Errorf("%w: no recorded answer has this attempt_id: an id is remembered for the longest window of its "+
		"zones, and for ten minutes at least; an answer without the database (degraded) is recorded nowhere", ErrNotFound)
}
