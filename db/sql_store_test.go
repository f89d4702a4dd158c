package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/service"
	"velocityd/service/event"
	"velocityd/tools/enginetest"
	"velocityd/tools/servicetest"
)

// sqlStore asks as a caller by SQL does, one check after the other: several buckets or an attempt id by
// check_velocity_buckets, and a lone bucket by check_velocity_by_rule, or by the former as well if
// several says so.
type sqlStore struct {
	conns   *sql.DB
	several bool
}

var _ service.CheckStore = sqlStore{}

func newSQLStore(tb testing.TB, d *enginetest.Database, several bool) sqlStore {
	tb.Helper()
	return sqlStore{conns: connect(tb, d, session.Options{LockWait: 40 * time.Second}).lookUps.Conns.DB, several: several}
}

func (s sqlStore) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	return s.each(ctx, call, true)
}

// bySQL is a sqlStore whose caller does not try anything again, either.
type bySQL struct{ sqlStore }

func (s bySQL) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	return s.each(ctx, call, false)
}

func (s sqlStore) each(ctx context.Context, call service.Call, triesAgain bool) (_ []service.Decision, err error) {
	if err := s.anyStale(ctx, call.Checks); err != nil {
		return nil, err
	}
	decisions := make([]service.Decision, len(call.Checks))
	for i, check := range call.Checks {
		decisions[i], err = s.once(ctx, check)
		for f := session.FaultOf(err); triesAgain && err != nil && f.Clean && f.Tries > 1; f = session.FaultOf(err) {
			decisions[i], err = s.once(ctx, check)
		}
		switch kind := session.FaultOf(err).Kind; {
		case err == nil:
		case errors.Is(kind, service.ErrNotFound), errors.Is(kind, service.ErrInvalid), errors.Is(kind, service.ErrConflict):
			decisions[i] = service.Decision{Err: session.AsKind(kind, err)}
		case triesAgain:
			return nil, session.AsKind(kind, err)
		default:
			return nil, err
		}
	}
	return decisions, nil
}

// anyStale returns an ErrStaleKey if a zone of one of several checks has another key rule now. A store
// refuses them all then, and the CALLs of the first of them would be recorded.
func (s sqlStore) anyStale(ctx context.Context, checks []service.Check) error {
	if len(checks) < 2 || checks[0].KeyRules == nil {
		return nil
	}
	rows, err := s.conns.QueryContext(ctx, "SELECT id, key_rule FROM zone_master")
	if err != nil {
		return err
	}
	defer rows.Close()
	rules := map[int64]any{}
	for rows.Next() {
		var id int64
		var rule string
		if err := rows.Scan(&id, &rule); err != nil {
			return err
		}
		rules[id] = rule
	}
	for _, check := range checks {
		for i, b := range check.Buckets {
			if rule, known := rules[b.ZoneID]; known && rule != ruleOf(check, i) {
				return service.ErrStaleKey
			}
		}
	}
	return rows.Err()
}

// once makes one CALL.
func (s sqlStore) once(ctx context.Context, check service.Check) (d service.Decision, err error) {
	query, args := "CALL check_velocity_buckets(?, ?)",
		[]any{bucketsOf(check), sql.Null[string]{V: check.AttemptID, Valid: check.AttemptID != ""}}
	if len(check.Buckets) == 1 && check.AttemptID == "" && check.SecretHash == "" && !s.several {
		query, args = "CALL check_velocity_by_rule(?, ?, ?, TRUE)",
			[]any{check.Buckets[0].ZoneID, check.Buckets[0].Key, ruleOf(check, 0)}
	}
	rows, err := s.conns.QueryContext(ctx, query, args...)
	if err != nil {
		return d, err
	}
	defer rows.Close()
	d.Verdicts = make([]service.Verdict, len(check.Buckets))
	for rows.Next() {
		v, err := verdictIn(rows, &d.CheckedAt.Time)
		if err != nil {
			return d, err
		}
		d.Blocked, d.WouldBlock = d.Blocked || v.Blocked, d.WouldBlock || v.WouldBlock
		for i, b := range check.Buckets {
			if b == v.Bucket {
				d.Verdicts[i] = v
			}
		}
	}
	return d, rows.Err()
}

// ReportAll reports a lone outcome by report_outcome or report_attempt, and others by report_outcomes.
func (s sqlStore) ReportAll(ctx context.Context, reports []service.Report) (receipts []error, err error) {
	for f := (session.Fault{Clean: true, Tries: 2}); f.Clean && f.Tries > 1; f = session.FaultOf(err) {
		if receipts, err = s.reportOnce(ctx, reports); err == nil {
			return receipts, nil
		}
	}
	if kind := session.FaultOf(err).Kind; len(reports) == 1 &&
		(errors.Is(kind, service.ErrNotFound) || errors.Is(kind, service.ErrConflict)) {
		return []error{session.AsKind(kind, err)}, nil
	}
	return nil, err
}

func (s sqlStore) reportOnce(ctx context.Context, reports []service.Report) ([]error, error) {
	if len(reports) == 1 {
		r := reports[0]
		query, name := "CALL report_outcome(?, ?)", any(r.TxnID)
		if r.AttemptID != "" {
			query, name = "CALL report_attempt(?, ?)", r.AttemptID
		}
		_, err := s.conns.ExecContext(ctx, query, name, r.Outcome)
		return []error{nil}, err
	}
	list := make([]map[string]any, len(reports))
	for i, r := range reports {
		list[i] = map[string]any{"txn_id": r.TxnID, "outcome": r.Outcome}
		if r.AttemptID != "" {
			list[i] = map[string]any{"attempt_id": r.AttemptID, "outcome": r.Outcome}
		}
	}
	argument, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	rows, err := s.conns.QueryContext(ctx, "CALL report_outcomes(?)", string(argument))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	receipts := make([]error, len(reports))
	for rows.Next() {
		var place int
		var status service.ReportStatus
		var txnID sql.Null[uint64]
		var outcome service.Outcome
		if err := rows.Scan(&place, &status, &txnID, &outcome); err != nil {
			return nil, err
		}
		if receipts[place] = status.Err(reports[place]); status == "unknown_attempt" {
			receipts[place] = reports[place].NotFound()
		}
		if txnID.Valid == (status == "unknown_attempt") || outcome != reports[place].Outcome {
			return nil, fmt.Errorf("report %d is answered with %s, txn %v, outcome %s", place, status, txnID, outcome)
		}
	}
	return receipts, rows.Err()
}

// verdictIn reads a row of check_velocity or of check_velocity_buckets.
func verdictIn(rows *sql.Rows, checkedAt *time.Time) (v service.Verdict, err error) {
	var seconds, retryAfter, resetAfter int64
	var reason sql.Null[service.Reason]
	var overrideID sql.Null[uint64]
	var velocity, remaining sql.Null[int]
	err = rows.Scan(&v.Blocked, &v.TxnID, &v.Bucket.ZoneID, &v.Bucket.Key, &v.Rate, &seconds, &remaining, &retryAfter,
		checkedAt, &v.WouldBlock, &velocity, &reason, &overrideID, &resetAfter)
	v.Reason, v.OverrideID, v.Unmetered, v.Velocity = reason.V, overrideID.V, !velocity.Valid, velocity.V
	v.Window.Duration, v.RetryAfter.Duration = time.Duration(seconds)*time.Second, time.Duration(retryAfter)*time.Second
	v.ResetAfter.Duration = time.Duration(resetAfter) * time.Second
	return v, err
}

// ruleOf is the rule that bucket i was normalised by, or nil.
func ruleOf(check service.Check, i int) any {
	if check.KeyRules == nil {
		return nil
	}
	return check.KeyRules[i].String()
}

// bucketsOf is the first argument of check_velocity_buckets.
func bucketsOf(check service.Check) string {
	buckets := make([]map[string]any, len(check.Buckets))
	for i, b := range check.Buckets {
		buckets[i] = map[string]any{"zone_id": b.ZoneID, "bucket_key": b.Key}
		if rule := ruleOf(check, i); rule != nil {
			buckets[i]["key_rule"] = rule
		}
		if check.SecretHash != "" {
			buckets[i]["secret_hash"] = check.SecretHash
		}
	}
	encoded, err := json.Marshal(buckets)
	if err != nil {
		panic(err) // numbers and texts
	}
	return string(encoded)
}

func TestProceduresKeepTheContract(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		servicetest.Exercise(t, procedures(engine, false))
	})
}

// TestLoneChecksByBucketsKeepTheContract asks check_velocity_buckets the questions that check_velocity_by_rule is asked
// otherwise.
func TestLoneChecksByBucketsKeepTheContract(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		servicetest.ExerciseSome(t, procedures(engine, true), []string{
			"AdmitsExactlyRateUnderContention", "LockoutsGrowAreCappedAndDecay", "SuccessResetsTheBucketsThatWantIt",
			"LongestPrefixWinsAndTheExactKeyOverIt", "ShadowDecidesAndRecordsButNeverBlocks", "PeriodEndsExactlyAtItsBoundary",
			"TheFirstBlockedAttemptsAreTxnsAndTheOthersAreCounted", "AttemptsUnderWayAreBoundedUnderContention",
			"EveryVerdictAndItsTxnTellWhy", "AgreesWithTheOracleOnRandomTimelines",
		})
	})
}

// procedures opens a subject that asks and reports by procedures.
func procedures(engine *enginetest.Engine, several bool) func(t *testing.T) servicetest.Subject {
	return func(t *testing.T) servicetest.Subject {
		b := newBench(t, engine.Rows(t))
		store := newSQLStore(t, b.Database, several)
		b.OutcomeStore = store
		return explainedBench{b.asking(store), t}
	}
}

// byStatements is a bench whose reports, peeks and releases are carried out by statements, beside
// procedures and triggers that do the rest.
type byStatements struct {
	bench
	plain *Store
}

func newByStatements(t *testing.T, on *enginetest.Engine) byStatements {
	t.Helper()
	b := newBench(t, on.Rows(t))
	plain := connect(t, b.Database, session.Options{Engine: engine.TiDB, LockWait: time.Minute})
	b.OutcomeStore = plain
	return byStatements{b, plain}
}

func (b byStatements) Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error) {
	return b.plain.Peek(ctx, bucket)
}

// EventsOf returns each event once: the trigger on zone_audit tells those of an edit, and so does the edit by
// statements.
func (b byStatements) EventsOf(tb testing.TB, bucket service.Bucket) []event.Event {
	tb.Helper()
	return slices.CompactFunc(b.bench.EventsOf(tb, bucket), func(one, next event.Event) bool {
		return one.Type == next.Type && one.At.Equal(next.At.Time)
	})
}

func (b byStatements) Release(ctx context.Context, bucket service.Bucket, principal, reason string) error {
	return b.plain.Release(ctx, bucket, principal, reason)
}

func TestStatementsKeepTheContractBesideProcedures(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		servicetest.ExerciseSome(t, func(t *testing.T) servicetest.Subject { return newByStatements(t, engine) }, []string{
			"ReleaseGivesAllPlacesBack", "ReleaseEndsALockoutAndForgetsIt", "ReleaseRacesWithChecks",
			"AReleaseAndTheLockoutThatItEndsAreTold",
			"PeekTellsWhatTheNextAttemptMeets", "SuccessResetsTheBucketsThatWantIt", "OutcomeByAttemptIDSpeaksForTheWholeCheck",
			"ReportsRacingWithChecksLoseAndInventNoPlaces", "RacingReportsOfOneAttemptAgreeOnOneOutcome",
			"ReportsOfABatchAreTakenInOrder",
		})
	})
}
