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
	expect   forecast // nil if no quick statement counts the rows to remove
}

func (b batches) task() Task {
	return Task{Name: b.name, Every: b.every, Run: b.run, Expect: b.forecast}
}

// Tasks returns the tasks that make room, and remove the rows that are no longer kept. On engines without triggers,
// overrides removes some expired overrides together with the note in zone_audit, and says whether there are more.
func Tasks(overrides func(ctx context.Context) (removed int64, more bool, err error)) []Task {
	var tasks []Task
	for _, b := range []batches{
		{"partitions_ahead", time.Hour, nil, nil},
		{"old_partitions", time.Hour, nil, expectPartitions},
		{"old_txns", time.Hour, by(forgetTxns), expectTxns},
		{"idle_buckets", 12 * time.Hour, by(forgetBuckets), nil}, // they are idle after a day
		{
			"expired_attempts", 10 * time.Minute, by(forgetAttempts),
			expect("attempt ids", "zone_attempt WHERE expires_at < ?", attemptMargin),
		},
		{"expired_overrides", time.Hour, func(ctx context.Context, _ *sqlx.Conn, _ string) (Result, error) {
			removed, more, err := overrides(ctx)
			return Result{Removed: removed, Backlog: more}, err
		}, expect("overrides", "zone_override WHERE expires_at < ?", day)},
		{
			"old_audit", time.Hour, by(forgetAudit),
			expectOld("changes", "changed_at", "zone_audit", func(b *bounds) int { return b.audit }),
		},
		{
			"old_events", time.Hour, by(forgetEvents),
			expectOld("events", "created_at", "zone_event", func(b *bounds) int { return b.events }),
		},
		endedLockouts(time.Minute),
	} {
		tasks = append(tasks, b.task())
	}
	return tasks
}

// by is a batch that goes by the bounds. A database without a policy keeps everything.
func by(do func(ctx context.Context, on *sqlx.Conn, b *bounds, position string) (Result, error)) batch {
	return func(ctx context.Context, on *sqlx.Conn, position string) (Result, error) {
		b, err := readBounds(ctx, on)
		if err != nil || b.now.IsZero() {
			return Result{}, err
		}
		return do(ctx, on, &b, position)
	}
}

// EventTasks returns the tasks that make events within seconds. That of ended lockouts is a task of retention, too, for
// operators that run retention beside the service.
func EventTasks() []Task {
	task := endedLockouts(0).task()
	task.IsWanted = lockoutsEnd
	return []Task{task}
}

// restRatio is how many times longer than its last batch a task rests before the next one. The disk and the processors
// are the checks' for most of the time.
const restRatio = 4

// run carries out batches until nothing is left or Budget is over.
func (b batches) run(ctx context.Context, on *sqlx.Conn, position string) (all Result, err error) {
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
		// A rest after a slow batch must not use up taskTimeout.
		case <-time.After(min(restRatio*time.Since(began), time.Until(until))):
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
