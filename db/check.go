package db

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"velocityd/service"
)

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
	if len(checks) == 1 && len(checks[0].Buckets) == 1 && checks[0].AttemptID == "" && !s.batchOnly {
		decisions[0], err = s.single(ctx, checks[0])
	} else {
		err = s.batch(ctx, checks, decisions)
	}
	if err != nil {
		return nil, err
	}
	return decisions, nil
}

// single asks about one bucket, by the cheaper procedure.
func (s *ProcStore) single(ctx context.Context, check service.Check) (service.Decision, error) {
	var a answer
	bucket := check.Buckets[0]
	err := s.pool.call(ctx, "check", func(rows *sql.Rows) error {
		if !rows.Next() {
			return cmp.Or(rows.Err(), errors.New("engine answered without a row"))
		}
		var zoneID int64 // repeated for callers by SQL, like the key
		var key sql.RawBytes
		return rows.Scan(&a.blocked, &a.txnID, &zoneID, &key, &a.rate,
			&a.window, &a.remaining, &a.retryAfter, &a.checkedAt, &a.wouldBlock, &a.velocity)
	}, "CALL check_velocity_keyed(?, ?, ?)", bucket.ZoneID, bucket.Key, keyRule(check, 0))
	switch {
	case errors.Is(err, service.ErrNotFound), errors.Is(err, service.ErrInvalid):
		// Without the engine's words.
		return service.Decision{Err: fmt.Errorf("zone %d: %w", bucket.ZoneID, faultOf(err).kind)}, nil
	case err != nil:
		return service.Decision{}, err
	}
	return service.Decision{
		Blocked: a.blocked.Bool, WouldBlock: a.wouldBlock.Bool, CheckedAt: a.checkedAt,
		Verdicts: []service.Verdict{a.verdict(bucket)},
	}, nil
}

// keyRule is the rule that bucket i was normalised by, for SQL; nil if none.
func keyRule(check service.Check, i int) *string {
	if check.KeyRules == nil {
		return nil
	}
	rule := check.KeyRules[i].String()
	return &rule
}

// batch asks about many checks and fills decisions, which has their length. A
// bucket that somebody else holds for long is waited for once: then the checks
// that name it are refused as busy, and the others asked without them.
func (s *ProcStore) batch(ctx context.Context, checks []service.Check, decisions []service.Decision) error {
	if len(checks) == 1 {
		return s.decide(ctx, 0, checks, decisions)
	}
	err := s.decide(ctx, errLockWait, checks, decisions)
	if !isNumber(err, errLockWait) || !s.pool.hasTime(ctx) {
		return err
	}
	held, err := s.held(ctx, checks)
	if err != nil {
		return err
	}
	return s.decideOthers(ctx, held, checks, decisions)
}

// held returns the numbers of the checks that name a bucket which is held now.
func (s *ProcStore) held(ctx context.Context, checks []service.Check) (numbers []int, err error) {
	argument, err := encodeChecks(checks)
	if err != nil {
		return nil, err
	}
	err = s.pool.call(ctx, "look for held buckets", func(rows *sql.Rows) error {
		numbers = nil
		for rows.Next() {
			var n int
			if err := rows.Scan(&n); err != nil {
				return err
			}
			numbers = append(numbers, n)
		}
		return rows.Err()
	}, "CALL find_held(?)", argument)
	return numbers, err
}

// decideOthers refuses the checks whose numbers are given and decides the rest.
func (s *ProcStore) decideOthers(
	ctx context.Context, held []int, checks []service.Check, decisions []service.Decision,
) error {
	var others []service.Check
	var places []int
	for i := range checks {
		if _, isHeld := slices.BinarySearch(held, i); isHeld {
			decisions[i] = service.Decision{Err: fmt.Errorf("%w: a bucket is held by another session", service.ErrBusy)}
			continue
		}
		others, places = append(others, checks[i]), append(places, i)
	}
	if len(others) == 0 {
		return nil
	}
	decided := make([]service.Decision, len(others))
	if err := s.decide(ctx, 0, others, decided); err != nil {
		return err
	}
	for i, place := range places {
		decisions[place] = decided[i]
	}
	return nil
}

// decide makes the CALL. It is not tried again after the engine's error but.
func (s *ProcStore) decide(
	ctx context.Context, but uint16, checks []service.Check, decisions []service.Decision,
) error {
	argument, err := encodeChecks(checks)
	if err != nil {
		return err
	}
	return s.pool.callBut(ctx, but, "check", func(rows *sql.Rows) error {
		clear(decisions)
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

// answer is one row of either procedure.
type answer struct {
	checkNo, bucketNo   int
	status              string
	blocked, wouldBlock sql.NullBool
	txnID               sql.Null[uint64]
	rate, window        sql.Null[int]
	velocity, remaining sql.Null[int] // remaining follows from the others
	retryAfter          sql.Null[int]
	checkedAt           time.Time
}

func (a *answer) scanBatch(rows *sql.Rows) error {
	return rows.Scan(&a.checkNo, &a.bucketNo, &a.status, &a.blocked, &a.wouldBlock, &a.txnID, &a.rate,
		&a.window, &a.velocity, &a.remaining, &a.retryAfter, &a.checkedAt)
}

func (a *answer) verdict(bucket service.Bucket) service.Verdict {
	return service.Verdict{
		Bucket:     bucket,
		Blocked:    a.blocked.Bool,
		WouldBlock: a.wouldBlock.Bool,
		TxnID:      a.txnID.V,
		Rate:       a.rate.V,
		Window:     time.Duration(a.window.V) * time.Second,
		Velocity:   a.velocity.V,
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
		d.WouldBlock = d.WouldBlock || a.wouldBlock.Bool
		d.Verdicts = append(d.Verdicts, a.verdict(bucket))
	case "unknown_zone":
		d.Err = fmt.Errorf("zone %d: %w", bucket.ZoneID, service.ErrNotFound)
	case "conflict":
		d.Err = fmt.Errorf("%w: attempt_id was used with other buckets", service.ErrConflict)
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
		ZoneID int64   `json:"zone_id"`
		Key    string  `json:"bucket_key"`
		Rule   *string `json:"key_rule,omitempty"`
	}
	type element struct {
		Buckets   []bucket `json:"buckets"`
		AttemptID string   `json:"attempt_id,omitempty"`
	}
	list := make([]element, len(checks))
	for i, check := range checks {
		list[i] = element{Buckets: make([]bucket, len(check.Buckets)), AttemptID: check.AttemptID}
		for j, b := range check.Buckets {
			list[i].Buckets[j] = bucket{ZoneID: b.ZoneID, Key: b.Key, Rule: keyRule(check, j)}
		}
	}
	encoded, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("encode %d checks: %w", len(checks), err)
	}
	return string(encoded), nil
}
