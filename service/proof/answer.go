package proof

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"velocityd/service"
)

// Answer is the remembered answer to an attempt id, as far as its txns must agree with it.
type Answer struct {
	AttemptID string
	At        time.Time
	Verdicts  []AnsweredBucket
}

// AnsweredBucket is the answer for one bucket.
type AnsweredBucket struct {
	Bucket              service.Bucket
	Blocked, WouldBlock bool
	TxnID               uint64
	Reason              service.Reason
	OverrideID          uint64
}

// Read reads the verdicts from zone_attempt.answer. It is no copy of the reading that retries are answered by, so that
// a mistake in either shows. The error does NOT quote the answer.
func (a *Answer) Read(text []byte) error {
	var lists [][]json.RawMessage
	if err := json.Unmarshal(text, &lists); err != nil || len(lists) == 0 {
		return errors.New("the answer of an attempt is no list of lists")
	}
	for _, list := range lists {
		var v AnsweredBucket
		var blocked, wouldBlock int
		var skipped json.RawMessage
		into := []any{
			&v.Bucket.ZoneID, &v.Bucket.Key, &blocked, &wouldBlock, &v.TxnID, &skipped, &skipped, &skipped, &skipped, &skipped,
			&v.Reason, &v.OverrideID,
		}
		if len(list) < len(into) {
			return errors.New("the answer of an attempt has too few members")
		}
		for i, target := range into {
			if json.Unmarshal(list[i], target) != nil {
				return errors.New("a member of the answer of an attempt is of another kind")
			}
		}
		v.Blocked, v.WouldBlock = blocked != 0, wouldBlock != 0
		a.Verdicts = append(a.Verdicts, v)
	}
	return nil
}

// isBlocked says that the whole check was blocked.
func (a *Answer) isBlocked() bool {
	return slices.ContainsFunc(a.Verdicts, func(v AnsweredBucket) bool { return v.Blocked })
}

// Judge returns the findings about an answer. txns are those that have an id of it.
func (a *Answer) Judge(txns []Row) (findings []Finding) {
	for _, v := range a.Verdicts {
		fits := func(t Row) bool { return t.ID == v.TxnID && a.fits(v, &t) }
		if !slices.ContainsFunc(txns, fits) {
			findings = append(findings, Finding{
				Kind: KindLost, ZoneID: v.Bucket.ZoneID, TxnID: v.TxnID, At: a.At,
				Text: "an attempt id was answered with it, and no such txn is there",
			})
		}
	}
	return findings
}

// fits says that a txn records the attempt in a bucket, or counts it. Pseudonyms of one bucket have the txn of the
// first.
func (a *Answer) fits(v AnsweredBucket, t *Row) bool {
	isNamed := slices.ContainsFunc(a.Verdicts, func(other AnsweredBucket) bool {
		return other.TxnID == t.ID && other.Bucket == t.Bucket && other.WouldBlock == t.WouldBlock &&
			other.Reason == t.Reason && other.OverrideID == t.OverrideID
	})
	if !isNamed || t.Blocked != a.isBlocked() || t.Bucket.ZoneID != v.Bucket.ZoneID {
		return false
	}
	isOwn := t.CreatedAt.Equal(a.At) && t.AttemptID == a.AttemptID
	return isOwn || t.Blocked && t.Attempts > 1 && !t.CreatedAt.After(a.At) && !t.LastAt.Before(a.At)
}
