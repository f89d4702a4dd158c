package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/servicetest"
)

// sqlStore asks as a caller by SQL does: several buckets, an attempt id or several
// checks by check_velocity_batch, and a lone bucket by check_velocity_by_rule, or by
// the batch as well if batchOnly says so.
type sqlStore struct {
	conns     *sql.DB
	batchOnly bool
}

var _ service.CheckStore = sqlStore{}

func newSQLStore(tb testing.TB, d *dbtest.Database, batchOnly bool) sqlStore {
	tb.Helper()
	return sqlStore{conns: connect(tb, d, session.Options{LockWait: 40 * time.Second}).pool.Conns.DB, batchOnly: batchOnly}
}

func (s sqlStore) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	checks := call.Checks
	decisions := make([]service.Decision, len(checks))
	for { // a caller by SQL tries again what gave up cleanly
		err := s.once(ctx, checks, decisions)
		switch f := session.FaultOf(err); {
		case err == nil:
			return decisions, nil
		case f.Clean && f.Tries > 1:
		default:
			return nil, session.AsKind(f.Kind, err)
		}
	}
}

// once makes one CALL, and fills decisions, which has the length of checks.
func (s sqlStore) once(ctx context.Context, checks []service.Check, decisions []service.Decision) (err error) {
	if len(checks) == 1 && len(checks[0].Buckets) == 1 && checks[0].AttemptID == "" && !s.batchOnly {
		decisions[0], err = s.lone(ctx, checks[0])
		return err
	}
	return s.batch(ctx, checks, decisions)
}

// bySQL is a sqlStore whose caller does not try anything again, either.
type bySQL struct{ sqlStore }

func (s bySQL) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	checks := call.Checks
	decisions := make([]service.Decision, len(checks))
	return decisions, s.once(ctx, checks, decisions)
}

// lone is a check of one bucket.
func (s sqlStore) lone(ctx context.Context, check service.Check) (d service.Decision, err error) {
	v := service.Verdict{Bucket: check.Buckets[0]}
	var seconds, retryAfter int64
	var ignored sql.RawBytes
	var reason sql.Null[service.Reason]
	var overrideID sql.Null[uint64]
	var velocity sql.Null[int]
	rows, err := s.conns.QueryContext(ctx, "CALL check_velocity_by_rule(?, ?, ?, TRUE)", v.Bucket.ZoneID, v.Bucket.Key, ruleOf(check, 0))
	if err == nil {
		defer rows.Close()
		for rows.Next() {
			err = errors.Join(err, rows.Scan(&v.Blocked, &v.TxnID, &ignored, &ignored, &v.Rate, &seconds, &ignored, &retryAfter,
				&d.CheckedAt, &v.WouldBlock, &velocity, &reason, &overrideID))
		}
		err = errors.Join(err, rows.Err())
	}
	if kind := session.FaultOf(err).Kind; err != nil && (errors.Is(kind, service.ErrNotFound) || errors.Is(kind, service.ErrInvalid)) {
		return service.Decision{Err: session.AsKind(kind, err)}, nil
	}
	v.Reason, v.OverrideID, v.Unmetered, v.Velocity = reason.V, overrideID.V, !velocity.Valid, velocity.V
	v.Window, v.RetryAfter = time.Duration(seconds)*time.Second, time.Duration(retryAfter)*time.Second
	d.Blocked, d.WouldBlock, d.Verdicts = v.Blocked, v.WouldBlock, []service.Verdict{v}
	return d, err
}

// ruleOf is the rule that bucket i was normalised by, or nil.
func ruleOf(check service.Check, i int) any {
	if check.KeyRules == nil {
		return nil
	}
	return check.KeyRules[i].String()
}

// batch fills decisions, which has the length of checks.
func (s sqlStore) batch(ctx context.Context, checks []service.Check, decisions []service.Decision) error {
	rows, err := s.conns.QueryContext(ctx, "CALL check_velocity_batch(?)", batchArgument(checks))
	if err != nil {
		return err
	}
	defer rows.Close()
	clear(decisions)
	for rows.Next() {
		var row batchRow
		if err := row.scan(rows); err != nil {
			return err
		}
		row.addTo(&decisions[row.checkNo], checks[row.checkNo].Buckets[row.bucketNo])
	}
	return rows.Err()
}

// batchArgument is what check_velocity_batch reads.
func batchArgument(checks []service.Check) string {
	list := make([]map[string]any, len(checks))
	for i, check := range checks {
		buckets := make([]map[string]any, len(check.Buckets))
		for j, b := range check.Buckets {
			buckets[j] = map[string]any{"zone_id": b.ZoneID, "bucket_key": b.Key}
			if rule := ruleOf(check, j); rule != nil {
				buckets[j]["key_rule"] = rule
			}
		}
		list[i] = map[string]any{"buckets": buckets}
		if check.AttemptID != "" {
			list[i]["attempt_id"] = check.AttemptID
		}
	}
	encoded, err := json.Marshal(list)
	if err != nil {
		panic(err) // numbers and texts
	}
	return string(encoded)
}

// batchRow is one row of check_velocity_batch.
type batchRow struct {
	checkNo, bucketNo   int
	status              string
	blocked, wouldBlock sql.NullBool
	txnID               sql.Null[uint64]
	rate, window        sql.Null[int]
	velocity, remaining sql.Null[int]
	retryAfter          sql.Null[int]
	checkedAt           time.Time
	reason              sql.Null[service.Reason]
	overrideID          sql.Null[uint64]
}

func (r *batchRow) scan(rows *sql.Rows) error {
	return rows.Scan(&r.checkNo, &r.bucketNo, &r.status, &r.blocked, &r.wouldBlock, &r.txnID, &r.rate,
		&r.window, &r.velocity, &r.remaining, &r.retryAfter, &r.checkedAt, &r.reason, &r.overrideID)
}

func (r *batchRow) addTo(d *service.Decision, bucket service.Bucket) {
	switch r.status {
	case "decided":
		d.CheckedAt = r.checkedAt
		d.Blocked = d.Blocked || r.blocked.Bool
		d.WouldBlock = d.WouldBlock || r.wouldBlock.Bool
		d.Verdicts = append(d.Verdicts, service.Verdict{
			Bucket: bucket, Blocked: r.blocked.Bool, WouldBlock: r.wouldBlock.Bool, TxnID: r.txnID.V,
			Rate: r.rate.V, Window: time.Duration(r.window.V) * time.Second, Unmetered: !r.velocity.Valid, Velocity: r.velocity.V,
			RetryAfter: time.Duration(r.retryAfter.V) * time.Second, Reason: r.reason.V, OverrideID: r.overrideID.V,
		})
	case "unknown_zone":
		d.Err = fmt.Errorf("zone %d: %w", bucket.ZoneID, service.ErrNotFound)
	case "conflict":
		d.Err = service.ErrConflict
	}
}

func TestProceduresKeepTheContract(t *testing.T) {
	t.Parallel()
	for name, batchOnly := range map[string]bool{"lone ones by check_velocity_by_rule": false, "all by check_velocity_batch": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
				servicetest.Exercise(t, func(t *testing.T) servicetest.Subject {
					b := newBench(t, engine.Database(t))
					return b.asking(newSQLStore(t, b.Database, batchOnly))
				})
			})
		})
	}
}
