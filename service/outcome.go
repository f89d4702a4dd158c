package service

import (
	"context"
)

// Outcome is how a login ended.
type Outcome string

// The outcomes of a login.
const (
	OutcomeSuccess Outcome = "success"
	OutcomeFailure Outcome = "failure"
)

// MaxReports is how many outcomes one call may report.
const MaxReports = 1000

// Report says how a login ended. TxnID is any txn of its check; the outcome is recorded for
// all of them.
type Report struct {
	TxnID   uint64
	Outcome Outcome
}

// Validate returns an ErrInvalid that names the field, or nil.
func (r Report) Validate() error {
	if r.TxnID < 1 {
		return fieldError("txn_id", "must be at least 1")
	}
	if r.Outcome != OutcomeSuccess && r.Outcome != OutcomeFailure {
		return fieldError("outcome", "must be success or failure")
	}
	return nil
}

// OutcomeStore records outcomes.
//
// ReportAll takes valid reports in order; element i of the result answers
// reports[i]: nil if the outcome is recorded, now or by an earlier report of
// the same outcome, ErrNotFound for a txn that does not exist, ErrConflict for
// one that was blocked, that has the other outcome, or whose reservation ran
// out before this success. The error result says that no report was recorded,
// or wraps ErrUndecided: reporting again is harmless.
type OutcomeStore interface {
	ReportAll(ctx context.Context, reports []Report) ([]error, error)
}
