package retention

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
)

// batch does a small part of a task in one transaction, from a position on.
type batch func(ctx context.Context, on *sqlx.Conn, position string) (Result, error)

// batches is a task that goes on by batches until there is nothing left.
type batches struct {
	name  string
	every time.Duration
	// portable is the batch where there are no procedures; nil if there is nothing to do there. Elsewhere it is
	// CALL retain_task, because the account of the service may delete nothing.
	portable batch
	expect   forecast // nil if nothing tells quickly what would leave
}

// Tasks returns the tasks that make room, and remove the rows that are no longer kept. On engines without triggers,
// overrides removes some expired overrides together with the note in zone_audit, and says whether there are more.
func Tasks(overrides func(ctx context.Context) (removed int64, more bool, err error)) []Task {
	return []Task{
		batches{"partitions_ahead", time.Hour, nil, nil},
		batches{"old_partitions", time.Hour, nil, expectPartitions},
		batches{"old_txns", time.Hour, forgetTxns, expectTxns},
		batches{"idle_buckets", 12 * time.Hour, forgetBuckets, nil}, // they are idle after a day
		batches{"expired_attempts", 10 * time.Minute, forgetAttempts, expectAttempts},
		batches{"expired_overrides", time.Hour, func(ctx context.Context, _ *sqlx.Conn, _ string) (Result, error) {
			removed, more, err := overrides(ctx)
			return Result{Removed: removed, Backlog: more}, err
		}, expectOverrides},
		batches{"old_audit", time.Hour, forgetAudit, expectAudit},
		batches{"old_events", time.Hour, forgetEvents, expectEvents},
		endedLockouts(time.Minute),
	}
}

// EventTasks returns the tasks that make events within seconds. That of ended lockouts is a task of retention, too, for
// those who run retention beside the service.
func EventTasks() []Task {
	return []Task{dueLockouts{endedLockouts(0)}}
}

// Name implements Task.
func (b batches) Name() string { return b.name }

// Every implements Task.
func (b batches) Every() time.Duration { return b.every }

// restRatio is how many times longer than its last batch a task rests before the next one. The disk and the processors
// are the checks' for most of the time.
const restRatio = 4

// Run implements Task.
func (b batches) Run(ctx context.Context, on *sqlx.Conn, position string) (all Result, err error) {
	all.Position = position
	own, err := session.Of(on.Conn)
	if err != nil {
		return all, err
	}
	next := b.portable
	if own.Engine.HasRoutines() {
		next = b.call
	}
	if next == nil {
		return all, nil
	}
	for until := time.Now().Add(Budget); ; {
		began := time.Now()
		part, err := next(ctx, on, all.Position)
		if err != nil {
			return all, err
		}
		all = Result{Removed: all.Removed + part.Removed, Backlog: part.Backlog, Position: part.Position}
		if !part.Backlog || time.Now().After(until) {
			return all, nil
		}
		select {
		case <-ctx.Done():
			return all, ctx.Err()
		case <-time.After(min(restRatio*time.Since(began), time.Until(until))): // a rest after a slow batch must not use up taskTimeout
		}
	}
}

// call is a batch by the procedure.
func (b batches) call(ctx context.Context, on *sqlx.Conn, position string) (r Result, err error) {
	rows, err := on.QueryContext(ctx, "CALL retain_task(?, ?)", b.name, position)
	if err != nil {
		return r, err
	}
	defer rows.Close()
	if rows.Next() {
		err = rows.Scan(&r.Position, &r.Removed, &r.Backlog)
	} else if rows.Err() == nil {
		err = fmt.Errorf("task %s: %w", b.name, session.ErrMisfit)
	}
	if err == nil {
		err = rows.Err()
	}
	return r, err
}
