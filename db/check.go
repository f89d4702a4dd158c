package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"velocityd/db/session"
	"velocityd/service"
)

// mostBuckets is how many buckets one transaction locks. A check has fewer.
const mostBuckets = 1000

// CheckAll implements service.CheckStore. Checks must be valid as
// service.Check.Validate says; ctx should have a deadline. Deadlocks and lock
// wait timeouts are tried again a few times, an answer that was lost is NOT.
//
// A lone check of one bucket is one CALL, so that no lock is held while packets
// travel. All others are decided in batches, one transaction each, in slice order;
// if only some of them fail, their error is that of their checks.
func (s *Store) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	ctx, cancel := call.Bound(session.WithPatience(ctx, call.Patience))
	defer cancel()
	switch len(call.Checks) {
	case 0:
		return nil, nil
	case 1:
		return s.checkAlone(ctx, call)
	}
	return s.checkPieces(ctx, call)
}

// checkPieces decides checks in one transaction, or in several if they have too many buckets. If one of
// several may have been recorded, the error of another one is that of its checks.
func (s *Store) checkPieces(ctx context.Context, call service.Call) ([]service.Decision, error) {
	decisions := make([]service.Decision, 0, len(call.Checks))
	mayBeRecorded := false
	var failed error
	for rest := call.Checks; len(rest) > 0; {
		piece := service.Piece(rest, mostBuckets)
		part, err := s.checkReachable(ctx, call.Of(piece))
		if len(piece) == len(call.Checks) {
			return part, err
		}
		if err != nil {
			failed = err
			part = slices.Repeat([]service.Decision{{Err: err}}, len(piece))
		}
		mayBeRecorded = mayBeRecorded || err == nil || errors.Is(err, service.ErrUndecided)
		decisions, rest = append(decisions, part...), rest[len(piece):]
	}
	if !mayBeRecorded {
		return nil, failed
	}
	return decisions, nil
}

// checkAlone decides one check. If its bucket is still held after the lock wait, that is an
// error of the call and not of the check.
func (s *Store) checkAlone(ctx context.Context, call service.Call) ([]service.Decision, error) {
	check := call.Checks[0]
	// The procedure would wait to make a row or to record. A batch knows which writes have lately timed out.
	mayTimeOut := call.NoWait && s.cache.timeouts.making.lasts() || s.cache.timeouts.has(check.Buckets[0])
	// It would also count all txns of a bucket. Those of a month may be many, and a batch knows them by a tally.
	isQuota := s.cache.plan(check.Buckets[0].ZoneID).isQuota
	if len(check.Buckets) == 1 && check.AttemptID == "" && check.SecretHash == "" && !mayTimeOut && !isQuota &&
		s.database.MayHaveRoutines() {
		decision, err := s.checkOne(ctx, check, !call.NoWait)
		switch {
		case err == nil:
			for _, v := range decision.Verdicts {
				if v.ResetAfter.Duration > 0 && v.Rate > mostListed {
					s.cache.sawQuota(v.Bucket.ZoneID)
				}
			}
			return []service.Decision{decision}, nil
		case !errors.Is(err, errNoProcedure):
			return nil, err
		}
	}
	decisions, err := s.checkReachable(ctx, call)
	if err == nil && errors.Is(decisions[0].Err, service.ErrHeld) && !call.NoWait {
		return nil, decisions[0].Err
	}
	return decisions, err
}

// checkBatch decides checks in one transaction, or in several if its packets
// would be longer than the engine takes.
func (s *Store) checkBatch(ctx context.Context, call service.Call) ([]service.Decision, error) {
	var decisions []service.Decision
	var err error
	for t := s.tries("check", byFault); t.next(ctx, &err); {
		decisions, err = s.tryBatch(ctx, call)
	}
	if !errors.Is(err, session.ErrTooLong) || len(call.Checks) == 1 {
		return decisions, err
	}
	first, second := call.Checks[:len(call.Checks)/2], call.Checks[len(call.Checks)/2:]
	decisions, err = s.checkBatch(ctx, call.Of(first))
	if err != nil {
		return nil, err
	}
	others, err := s.checkBatch(ctx, call.Of(second))
	if err != nil {
		others = slices.Repeat([]service.Decision{{Err: err}}, len(second))
	}
	return append(decisions, others...), nil
}

// tryBatch decides checks in one transaction, once.
func (s *Store) tryBatch(ctx context.Context, call service.Call) (decisions []service.Decision, err error) {
	err = s.withBatch(ctx, call, func(ctx context.Context, b *batch) (err error) {
		decisions, err = s.carryOut(ctx, b)
		return err
	})
	// The engine does not say which check waited: of a shared call each is asked again apart.
	if errors.Is(err, errRecordingTimeout) {
		s.note(session.LockWaitTimeout)
		return slices.Repeat([]service.Decision{{Err: service.ErrStuck}}, len(call.Checks)), nil
	}
	return decisions, err
}

// withBatch calls do with a batch on a connection for checks, and rolls back a transaction that do leaves
// undone.
func (s *Store) withBatch(ctx context.Context, call service.Call, do func(context.Context, *batch) error) (err error) {
	l, err := s.takeConn(ctx)
	if err != nil {
		return err
	}
	clean := false
	defer func() { l.giveBack(clean, err) }()
	if err := s.knowShards(l.bound, l.conn); err != nil {
		return session.Unrecorded(err)
	}
	b := newBatch(s.cache, l.conn, call)
	err = do(l.bound, b)
	// A check that is too long by itself may not be for a new session, which reads the limit anew.
	endsHere := session.EndsSession(err) || len(call.Checks) == 1 && errors.Is(err, session.ErrTooLong)
	clean = err == nil || !session.IsLost(err) && !endsHere && b.roll(l.bound) == nil
	return err
}

// checkConn is a connection for checks in use, until the deadline of ctx.
type checkConn struct {
	store  *Store
	pooled *sql.Conn
	conn   *session.Conn
	ctx    context.Context //nolint:containedctx // of the one call that uses the connection
	bound  context.Context // for statements: the deadline is the socket's
}

// takeConn takes a connection for checks, which the caller must leave.
func (s *Store) takeConn(ctx context.Context) (*checkConn, error) {
	pooled, err := s.checks.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: no connection: %w", session.ErrUnsent, err)
	}
	l := &checkConn{store: s, pooled: pooled, ctx: ctx}
	if l.conn, err = session.Of(pooled); err == nil {
		l.bound, err = l.conn.Bound(ctx)
	}
	if err != nil {
		s.killer.Release(ctx, pooled, false, nil)
		return nil, err
	}
	return l, nil
}

// giveBack gives the connection back after work that ended with err. A connection that is not clean is closed.
func (l *checkConn) giveBack(clean bool, err error) {
	l.conn.Unbound(l.ctx, err)
	l.store.killer.Release(l.ctx, l.pooled, clean, nil)
}

// carryOut decides a batch and records that. Until the last packet is sent nothing
// is recorded, however the packets before it end.
func (s *Store) carryOut(ctx context.Context, b *batch) ([]service.Decision, error) {
	if err := s.lockAll(ctx, b); err != nil {
		return nil, session.Unrecorded(err)
	}
	ruling, err := b.decide(ctx)
	if err != nil {
		return nil, session.Unrecorded(err)
	}
	switch err := b.commit(ctx, ruling); {
	case err != nil && ruling.IsEmpty():
		return nil, session.Unrecorded(err)
	case err != nil:
		return nil, err
	}
	return ruling.Decisions, nil
}

// checkOne asks about one bucket by the procedure, in one round trip.
func (s *Store) checkOne(ctx context.Context, check service.Check, waits bool) (decision service.Decision, err error) {
	for t := s.tries("check", byFault); t.next(ctx, &err); {
		decision, err = s.tryOne(ctx, check, waits)
	}
	bucket := check.Buckets[0]
	switch {
	case errors.Is(err, service.ErrNotFound), errors.Is(err, service.ErrInvalid):
		// Without the engine's words.
		return service.Decision{Err: fmt.Errorf("zone %d: %w", bucket.ZoneID, session.FaultOf(err).Kind)}, nil
	case errors.Is(err, service.ErrHeld):
		s.cache.sawRow(bucket)
		return service.Decision{Err: service.ErrHeld}, nil
	case err == nil:
		s.cache.sawRow(bucket)
		s.cache.timeouts.forget(bucket)
	case session.IsNumber(err, session.NumberLockWait):
		s.cache.timeouts.add(bucket)
		err = session.AsKind(service.ErrHeld, err)
	}
	return decision, err
}

// tryOne asks about one bucket by the procedure, once.
func (s *Store) tryOne(ctx context.Context, check service.Check, waits bool) (decision service.Decision, err error) {
	l, err := s.takeConn(ctx)
	if err != nil {
		return decision, err
	}
	clean := false
	defer func() { l.giveBack(clean, err) }()
	decision, err = dialectOf(l.conn.Engine).decideAlone(l.bound, l.conn, check, waits)
	if !waits && session.IsNumber(err, session.NumberLockWait) { // the one lock that it waits for is that of a gap
		s.note(session.LockWaitTimeout)
		err = s.loneWaited(l.bound, l.conn, check.Buckets[0])
		clean = !session.IsLost(err)
		return decision, err
	}
	clean = err == nil || errors.Is(err, errNoProcedure) || session.FaultOf(err).Clean
	return decision, err
}

// loneWaited remembers that a check which may not wait has timed out: while it recorded, if the bucket
// has a lock row, and otherwise while it made that row. It returns the check's error.
func (s *Store) loneWaited(ctx context.Context, conn *session.Conn, bucket service.Bucket) error {
	r := conn.Reading()
	r.SQL("SELECT COUNT(*) FROM zone_bucket_lock").WhereBucket(bucket)
	switch hasRow, err := r.Counts(ctx, conn); {
	case err != nil:
		return session.Unrecorded(err)
	case hasRow:
		s.cache.timeouts.add(bucket)
		return service.ErrHeld
	}
	s.cache.timeouts.making.begin()
	return errNoProcedure
}

// errRecordingTimeout says that a batch timed out while it recorded. Nothing was recorded.
var errRecordingTimeout = fmt.Errorf("%w: the recording timed out on a lock", service.ErrHeld)

// errNoProcedure says that a batch has to decide a lone check: the engine has no procedures, or the one
// for it timed out on the making of a lock row. Nothing was recorded.
var errNoProcedure = errors.New("no procedure can decide the check")
