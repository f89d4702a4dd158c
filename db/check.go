package db

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"velocityd/service"
)

// firstBackoff is the longest first pause between two tries of a check; the
// pause doubles and is random, so that those who met in a deadlock part.
const firstBackoff = 10 * time.Millisecond

// ProcStore decides checks by the stored procedures: one CALL for a slice of
// checks, decided, recorded and committed by the engine before it answers.
type ProcStore struct {
	pool *Pool
	// batchOnly sends lone checks through the batch form too; tests set it to
	// prove that both forms decide alike.
	batchOnly bool
}

var _ service.CheckStore = (*ProcStore)(nil)

// NewProcStore returns the store of the database that pool is connected to. Its
// schema must be at the version this program needs.
func NewProcStore(pool *Pool) *ProcStore { return &ProcStore{pool: pool} }

// CheckAll implements service.CheckStore with one CALL. Checks must be valid as
// service.Check.Validate says; ctx should have a deadline. Deadlocks and lock
// wait timeouts are tried again a few times, an answer that was lost is NOT.
func (s *ProcStore) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	if len(checks) == 0 {
		return nil, nil
	}
	decisions := make([]service.Decision, len(checks))
	var err error
	if len(checks) == 1 && len(checks[0].Buckets) == 1 && !s.batchOnly {
		decisions[0], err = s.single(ctx, checks[0].Buckets[0])
	} else {
		err = s.batch(ctx, checks, decisions)
	}
	if err != nil {
		return nil, err
	}
	return decisions, nil
}

// single asks about one bucket, by the cheaper procedure.
func (s *ProcStore) single(ctx context.Context, bucket service.Bucket) (service.Decision, error) {
	var a answer
	err := s.call(ctx, func(rows *sql.Rows) error {
		if !rows.Next() {
			return cmp.Or(rows.Err(), errors.New("engine answered without a row"))
		}
		var zoneID int64 // repeated for callers by SQL, like the key
		var key sql.RawBytes
		return rows.Scan(&a.blocked, &a.txnID, &zoneID, &key, &a.rate,
			&a.window, &a.remaining, &a.retryAfter, &a.checkedAt)
	}, "CALL check_velocity(?, ?)", bucket.ZoneID, bucket.Key)
	switch {
	case errors.Is(err, service.ErrNotFound), errors.Is(err, service.ErrInvalid):
		// Without the engine's words.
		return service.Decision{Err: fmt.Errorf("zone %d: %w", bucket.ZoneID, faultOf(err).kind)}, nil
	case err != nil:
		return service.Decision{}, err
	}
	return service.Decision{
		Blocked: a.blocked.Bool, CheckedAt: a.checkedAt, Verdicts: []service.Verdict{a.verdict(bucket)},
	}, nil
}

// batch asks about many checks and fills decisions, which has their length.
func (s *ProcStore) batch(ctx context.Context, checks []service.Check, decisions []service.Decision) error {
	argument, err := encodeChecks(checks)
	if err != nil {
		return fmt.Errorf("encode %d checks: %w", len(checks), err)
	}
	return s.call(ctx, func(rows *sql.Rows) error {
		answered := 0
		for rows.Next() {
			var a answer
			if err := a.scanBatch(rows); err != nil {
				return err
			}
			a.addTo(decisions, checks)
			answered++
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if want := countBuckets(checks); answered != want {
			return fmt.Errorf("engine answered for %d of %d buckets", answered, want)
		}
		return nil
	}, "CALL check_velocity_batch(?)", argument)
}

// call makes one CALL and hands its one result set to read, again if the engine
// says that it gave up cleanly. After an error that may have left a transaction
// open the connection is closed, not pooled.
func (s *ProcStore) call(ctx context.Context, read func(*sql.Rows) error, query string, args ...any) error {
	backoff := firstBackoff
	for try := 1; ; try++ {
		sent, err := s.callOnce(ctx, read, query, args...)
		if err == nil {
			return nil
		}
		if !sent {
			return fmt.Errorf("%w: no connection for a check: %w", service.ErrBusy, err)
		}
		f := faultOf(err)
		if try >= f.tries || !s.hasTime(ctx) || !pause(ctx, rand.N(backoff)) {
			return fmt.Errorf("check, try %d: %w", try, asKind(f.kind, err))
		}
		backoff *= 2
	}
}

// hasTime says that one more lock wait would end before ctx does: a check that
// gives up now is known not to be recorded, one that is cut off is not. Engines
// look at lock waits once a second, so a wait may take a second longer.
func (s *ProcStore) hasTime(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return !limited || time.Until(deadline) > s.pool.lockWait+time.Second
}

// callOnce reports whether the CALL may have reached the engine.
func (s *ProcStore) callOnce(
	ctx context.Context, read func(*sql.Rows) error, query string, args ...any,
) (sent bool, err error) {
	conn, err := s.pool.db.Conn(ctx)
	if err != nil {
		return false, err
	}
	whole := false
	defer func() {
		if !whole && !faultOf(err).clean {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it
		}
		_ = conn.Close() // back to the pool
	}()
	rows, err := conn.QueryContext(ctx, query, args...)
	if err != nil {
		return true, err
	}
	defer rows.Close()
	if err := cmp.Or(read(rows), rows.Err()); err != nil {
		return true, err
	}
	// Read the CALL's closing packet here: the driver's Close would wait for it
	// without a deadline. If it does not come, the answer holds all the same.
	for rows.Next() || rows.NextResultSet() { //nolint:revive // nothing is left to look at
	}
	whole = rows.Err() == nil
	return true, nil
}

// pause waits and says whether ctx still lives.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// answer is one row of either procedure.
type answer struct {
	checkNo, bucketNo     int
	status                string
	blocked               sql.NullBool
	txnID                 sql.Null[uint64]
	rate, window          sql.Null[int]
	remaining, retryAfter sql.Null[int]
	checkedAt             time.Time
}

func (a *answer) scanBatch(rows *sql.Rows) error {
	return rows.Scan(&a.checkNo, &a.bucketNo, &a.status, &a.blocked, &a.txnID, &a.rate,
		&a.window, &a.remaining, &a.retryAfter, &a.checkedAt)
}

func (a *answer) verdict(bucket service.Bucket) service.Verdict {
	return service.Verdict{
		Bucket:     bucket,
		Blocked:    a.blocked.Bool,
		TxnID:      a.txnID.V,
		Rate:       a.rate.V,
		Window:     time.Duration(a.window.V) * time.Second,
		Velocity:   a.rate.V - a.remaining.V,
		RetryAfter: time.Duration(a.retryAfter.V) * time.Second,
	}
}

// addTo puts the row at its place. The procedure answers in order.
func (a *answer) addTo(decisions []service.Decision, checks []service.Check) {
	d, bucket := &decisions[a.checkNo], checks[a.checkNo].Buckets[a.bucketNo]
	switch a.status {
	case "decided":
		d.CheckedAt = a.checkedAt
		d.Blocked = d.Blocked || a.blocked.Bool
		d.Verdicts = append(d.Verdicts, a.verdict(bucket))
	case "unknown_zone":
		d.Err = fmt.Errorf("zone %d: %w", bucket.ZoneID, service.ErrNotFound)
	}
}

func countBuckets(checks []service.Check) int {
	n := 0
	for _, check := range checks {
		n += len(check.Buckets)
	}
	return n
}

// encodeChecks returns the argument of check_velocity_batch.
func encodeChecks(checks []service.Check) (string, error) {
	type bucket struct {
		ZoneID int64  `json:"zone_id"`
		Key    string `json:"bucket_key"`
	}
	list := make([][]bucket, len(checks))
	for i, check := range checks {
		list[i] = make([]bucket, len(check.Buckets))
		for j, b := range check.Buckets {
			list[i][j] = bucket{ZoneID: b.ZoneID, Key: b.Key}
		}
	}
	encoded, err := json.Marshal(list)
	return string(encoded), err
}
