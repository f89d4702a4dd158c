// Package retention runs the tasks that keep a database small: they make partitions, remove rows that are no
// longer kept, and do the other recurring work of one instance among all. It must not know
// how a check is decided.
package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
)

const (
	// taskTimeout bounds one run of a task. A task stops by itself after Budget, with a backlog.
	taskTimeout = 50 * time.Second
	// Budget is for how long a task begins another batch. Then it leaves the rest to its next run, so that
	// the other tasks get their turn.
	Budget = 20 * time.Second
	// noteTimeout bounds the note of a run whose connection is gone.
	noteTimeout = 3 * time.Second
)

// Task is a piece of work that is done again and again, by one runner among all at a time. Still, it must stay
// right if two runners carry it out at once: on several primaries GET_LOCK holds on each of them alone.
type Task struct {
	// Name is the row of retention_task: up to 32 ASCII characters, and always the same.
	Name string
	// Every is the least time between the begins of two runs, unless a run leaves a backlog or fails.
	Every time.Duration
	// Run works on the connection that holds the lock of the runners, whose loss ends the work, until there
	// is nothing left or Budget is over. It leaves no transaction open. position is that of the Result of the
	// last run without an error, or "".
	Run func(ctx context.Context, on *sqlx.Conn, position string) (Result, error)
	// IsWanted is a cheap way to see whether there is anything to do: a turn leaves the task out if not. Nil means that
	// there may always be.
	IsWanted func(ctx context.Context, from session.Reader) (bool, error)
	// Expect returns the rows that the task would remove now. It changes nothing, takes no lock, and reads a bounded
	// number of rows. Nil means that nothing tells that quickly.
	Expect func(ctx context.Context, on *sqlx.Conn) ([]Leaving, error)
}

// Result is the outcome of a run. It counts beside an error, too.
type Result struct {
	// Removed is how many rows were removed or changed.
	Removed int64
	// Backlog says that there is more to do, so the next run begins soon.
	Backlog bool
	// Position is where the next run goes on, up to 512 characters. An error leaves that of the run before.
	Position string
}

// Run is one run of a task, as its runner saw it.
type Run struct {
	Task string
	Result
	Took time.Duration
	Err  error
}

// Purpose tells runners apart that may work at the same time.
type Purpose string

// The purposes. Work that must be done within seconds has a
// separate runner, as a task of retention may take a minute, and so have webhooks, as a receiver may be slow.
const (
	ForRetention Purpose = "retention"
	ForEvents    Purpose = "events"
	ForWebhooks  Purpose = "webhooks"
)

// Runner carries out tasks.
type Runner struct {
	pool    *session.Pool
	purpose Purpose
	tasks   []Task
}

// NewRunner returns a runner of tasks, in this order. Its pool is of one connection, which no other work uses.
func NewRunner(pool *session.Pool, of Purpose, tasks ...Task) *Runner {
	return &Runner{pool, of, tasks}
}

// Names returns the names of the tasks, in their order.
func (r *Runner) Names() []string {
	names := make([]string, len(r.tasks))
	for i, task := range r.tasks {
		names[i] = task.Name
	}
	return names
}

// ErrElsewhere says that another runner is at work.
var ErrElsewhere = errors.New("another runner of retention is at work")

// errDisowned says that the lock of the runners was lost on the way.
var errDisowned = errors.New("the lock of the runners was lost: does a proxy share connections among callers?")

// Turn runs the tasks that are due, each once, and returns their runs. A task that fails stops no other one:
// its error is in its run, and in retention_task. If another runner is at work, Turn leaves it to that one.
// The error is one of the database as a whole, or that of ctx.
func (r *Runner) Turn(ctx context.Context) (runs []Run, err error) {
	states, err := r.States(ctx)
	if err != nil {
		return nil, err
	}
	for i, task := range r.tasks {
		isWanted, err := r.isWanted(ctx, task, states[i])
		if err != nil {
			return runs, err
		}
		if !isWanted {
			continue
		}
		run, err := r.attempt(ctx, task, func(s State) bool { return s.IsDue })
		if run != nil {
			runs = append(runs, *run)
		}
		switch {
		case errors.Is(err, ErrElsewhere):
			return runs, nil
		case err != nil:
			return runs, err
		}
	}
	return runs, ctx.Err()
}

// isWanted reports whether a task in this state is due and has anything to do.
func (r *Runner) isWanted(ctx context.Context, task Task, state State) (isWanted bool, err error) {
	if task.IsWanted == nil || !state.IsDue {
		return state.IsDue, nil
	}
	if isWanted, err = task.IsWanted(ctx, r.pool); err != nil {
		err = fmt.Errorf("look whether retention task %s has anything to do: %w", task.Name, session.LookupError(err))
	}
	return isWanted, err
}

// Finish runs all tasks, due or not, each until it leaves no backlog or fails, and tells note of each run. The error is
// ErrElsewhere if another runner is at work, one of the database as a whole, or that of ctx.
func (r *Runner) Finish(ctx context.Context, note func(Run)) error {
	for _, task := range r.tasks {
		for {
			run, err := r.attempt(ctx, task, func(State) bool { return true })
			if run != nil {
				note(*run)
			}
			if err != nil {
				return err
			}
			if run.Err != nil || !run.Backlog {
				break
			}
		}
	}
	return ctx.Err()
}

// attempt runs a task under the lock of the runners if its state is one in which wanted asks for that: another runner
// may have run it meanwhile. Otherwise run is nil.
func (r *Runner) attempt(parent context.Context, task Task, wanted func(State) bool) (run *Run, err error) {
	ctx, cancel := context.WithTimeout(parent, taskTimeout)
	defer cancel()
	isNoted, position := false, ""
	err = r.pool.With(ctx, func(conn *sqlx.Conn) (clean bool, err error) {
		defer func() { clean = err == nil || errors.Is(err, ErrElsewhere) }()
		lock, err := acquire(ctx, conn, r.purpose)
		if err != nil {
			return false, err
		}
		state, err := readState(ctx, conn, task)
		if err != nil || !wanted(state) {
			return false, errors.Join(err, lock.release(ctx, conn))
		}
		if err := begin(ctx, conn, task); err != nil {
			return false, err
		}
		run, position = &Run{Task: task.Name}, state.Position
		began := time.Now()
		run.Result, run.Err = task.Run(ctx, conn, position)
		run.Took = time.Since(began)
		if run.Err = errors.Join(run.Err, lock.prove(ctx, conn)); ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err := end(ctx, conn, run, position); err != nil {
			return false, err
		}
		isNoted = true
		return false, lock.release(ctx, conn)
	})
	if run != nil && !isNoted && parent.Err() == nil {
		return run, r.noteLost(parent, run, position)
	}
	if err != nil && !errors.Is(err, ErrElsewhere) {
		err = fmt.Errorf("retention task %s: %w", task.Name, session.LookupError(err))
	}
	return run, err
}

// noteLost notes a run whose connection is gone, by another one.
func (r *Runner) noteLost(ctx context.Context, run *Run, position string) error {
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	err := r.pool.On(ctx, func(conn *sqlx.Conn) error { return end(ctx, conn, run, position) })
	if err != nil {
		return fmt.Errorf("note the run of retention task %s: %w", run.Task, session.LookupError(err))
	}
	return nil
}
