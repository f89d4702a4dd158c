package service

import (
	"context"
	"fmt"
	"time"
)

// Outcome is how a login ended.
type Outcome string

// The outcomes of a login.
const (
	OutcomeSuccess Outcome = "success"
	OutcomeFailure Outcome = "failure"
)

// MaxReports bounds the outcomes of one call.
const MaxReports = 1000

// Report says how a login ended. Either TxnID, which is any txn of its check, or AttemptID names the
// check; the outcome is recorded for all of its txns.
type Report struct {
	TxnID     uint64  `json:"txn_id,string,omitzero"`
	AttemptID string  `json:"attempt_id,omitzero"`
	Outcome   Outcome `json:"outcome,omitzero"` // a problem has none in its place
}

// Validate returns an ErrInvalid that names the field, or nil.
func (r Report) Validate() error {
	switch {
	case r.AttemptID == "" && r.TxnID < 1:
		return NewFieldError("txn_id", "must be at least 1")
	case r.AttemptID != "" && r.TxnID > 0:
		return NewFieldError("attempt_id", "must not be given beside txn_id: one of them names the check")
	}
	if err := validateAttemptID(r.AttemptID); err != nil {
		return err
	}
	if r.Outcome != OutcomeSuccess && r.Outcome != OutcomeFailure {
		return NewFieldError("outcome", "must be success or failure")
	}
	return nil
}

// NotFound returns the ErrNotFound of the check that the report names. It does NOT name an attempt id, which is
// the secret of its caller.
func (r Report) NotFound() error {
	if r.AttemptID != "" {
		return NoAttempt()
	}
	return fmt.Errorf("txn %d: %w", r.TxnID, ErrNotFound)
}

// OutcomeStore records outcomes.
//
// ReportAll takes valid reports in order; element i of the result answers
// reports[i]: nil if the outcome is recorded, now or by an earlier report of
// the same outcome, ErrNotFound for a txn that does not exist or an attempt id
// that is not remembered, ErrConflict for a check that was blocked, that has
// the other outcome, or whose reservation ran out before this success. The
// error result says that no report was recorded, or wraps ErrUndecided:
// reporting again is harmless.
type OutcomeStore interface {
	ReportAll(ctx context.Context, reports []Report) ([]error, error)
}

// ReportStatus is the result of a report. It holds for the whole check. The procedure report_outcomes
// answers with the same words, and with unknown_attempt where Go has NoAttempt.
type ReportStatus string

// The results of a report.
const (
	ReportRecorded   ReportStatus = "recorded"    // now, or before with the same outcome
	ReportUnknownTxn ReportStatus = "unknown_txn" // there is no such txn
	ReportBlocked    ReportStatus = "blocked"     // the attempt was blocked, so there was no login
	ReportConflict   ReportStatus = "conflict"    // the other outcome is recorded
	// ReportExpired is the result of a success after the ReserveTTL of a zone where failures count: the
	// attempt is a failure by now.
	ReportExpired ReportStatus = "expired"
)

// Err returns the error of the status: nil for ReportRecorded, otherwise one that wraps ErrNotFound or
// ErrConflict. It does NOT name an attempt id.
func (s ReportStatus) Err(report Report) error {
	check := "the attempt"
	if report.AttemptID == "" {
		check = fmt.Sprintf("txn %d", report.TxnID)
	}
	switch s {
	case ReportRecorded:
		return nil
	case ReportUnknownTxn:
		return report.NotFound()
	case ReportBlocked:
		return fmt.Errorf("%w: %s was blocked: there was no login", ErrConflict, check)
	case ReportExpired:
		return fmt.Errorf("%w: %s counts as a failure since its reserve_ttl", ErrConflict, check)
	default:
		return fmt.Errorf("%w: %s has the other outcome", ErrConflict, check)
	}
}

// Settlement is the result of Settle: the results of the reports, and the records that make them true.
type Settlement struct {
	// Statuses holds one element for each report.
	Statuses []ReportStatus
	// Settled are the txns that get an outcome, each once.
	Settled []SettledTxn
	// Resets are the buckets whose txns stop counting as by a release (see UncountSince), because
	// their zones reset on success. Their lockouts stay. A bucket may be there several times.
	Resets []Bucket
}

// SettledTxn is a txn as it is to be recorded.
type SettledTxn struct {
	Txn // with its Outcome, and Counted and UncountedAt as they become
	// GivenBack says that the txn counted until now.
	GivenBack bool
}

// Settle decides the effect of reports, in order, as if they all came at now. checks holds for each report
// all recorded txns of its check, or none if the txn does not exist. zones are the present zones; a missing
// zone was deleted, and its txns change no more than their outcome. Settle does NOT change its arguments.
//
// If only some txns of a check have an outcome, because its transaction was committed on one shard and lost
// on another, a report of the same outcome settles the others, however late it comes.
func Settle(now time.Time, zones map[int64]Zone, reports []Report, checks [][]Txn) Settlement {
	s := settler{now: now, zones: zones, outcomes: map[txnName]Outcome{}}
	s.Statuses = make([]ReportStatus, len(reports))
	for i, report := range reports {
		s.Statuses[i] = s.take(report.Outcome, checks[i])
	}
	return s.Settlement
}

// settler is the state of one call of Settle.
type settler struct {
	now      time.Time
	zones    map[int64]Zone
	outcomes map[txnName]Outcome // of the txns that this call settles
	Settlement
}

// txnName tells two txns apart that have one id.
type txnName struct {
	id uint64
	at int64 // microseconds
}

func (t Txn) name() txnName { return txnName{t.ID, t.CreatedAt.UnixMicro()} }

// take takes one report on a check.
func (s *settler) take(outcome Outcome, check []Txn) ReportStatus {
	status := s.judge(outcome, check)
	if status != ReportRecorded {
		return status
	}
	for _, txn := range check {
		if s.outcomeOf(txn) == "" {
			s.settle(outcome, txn)
		}
	}
	return status
}

// judge returns the result of a report on a check.
func (s *settler) judge(outcome Outcome, check []Txn) ReportStatus {
	if len(check) == 0 {
		return ReportUnknownTxn
	}
	late, said := false, false
	for _, txn := range check {
		before := s.outcomeOf(txn)
		switch {
		case txn.Blocked:
			return ReportBlocked
		case before != "" && before != outcome:
			return ReportConflict
		}
		late, said = late || s.isLate(txn), said || before != ""
	}
	if outcome == OutcomeSuccess && late && !said {
		return ReportExpired
	}
	return ReportRecorded
}

func (s *settler) outcomeOf(txn Txn) Outcome {
	if outcome, settled := s.outcomes[txn.name()]; settled {
		return outcome
	}
	return txn.Outcome
}

// isLate says that a success comes too late for a txn.
func (s *settler) isLate(txn Txn) bool {
	zone, exists := s.zones[txn.Bucket.ZoneID]
	return exists && zone.Counts == CountsFailures && s.now.After(txn.CreatedAt.Add(zone.WithDefaults().ReserveTTL))
}

// settle gives a txn its outcome.
func (s *settler) settle(outcome Outcome, txn Txn) {
	s.outcomes[txn.name()] = outcome
	zone := s.zones[txn.Bucket.ZoneID]
	succeeded := outcome == OutcomeSuccess
	settled := SettledTxn{Txn: txn, GivenBack: txn.Counted && succeeded && zone.Counts == CountsFailures}
	settled.Outcome, settled.Counted = outcome, txn.Counted && !settled.GivenBack
	if settled.GivenBack {
		settled.UncountedAt.Time = s.now
	}
	s.Settled = append(s.Settled, settled)
	if succeeded && zone.ResetOnSuccess {
		s.Resets = append(s.Resets, txn.Bucket)
	}
}

// UncountSince returns the instant after which the txns of a bucket stop counting when the bucket
// is released, or reset by a success, at now. override is the one in force for the bucket, or nil:
// its txns may count longer than the zone's.
func UncountSince(now time.Time, zone Zone, override *Override) time.Time {
	since := zone.Term().Since(now)
	if under := zone.TermUnder(override).Since(now); under.Before(since) {
		return under
	}
	return since
}
