package retention

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/service"
)

// longestNote is how many characters of an error are noted.
const longestNote = 512

// failedPause is the time between two runs of a task that fails, if it is not due earlier.
const failedPause = time.Minute

// State is the row of a task in retention_task.
type State struct {
	service.RetentionTask
	Position string
	// IsDue says that NextAt has come.
	IsDue bool
}

// row is a row of retention_task.
type row struct {
	Name        string     `db:"name"`
	BeganAt     time.Time  `db:"began_at"`
	EndedAt     *time.Time `db:"ended_at"`
	SucceededAt *time.Time `db:"succeeded_at"`
	Removed     int64      `db:"removed"`
	Backlog     bool       `db:"backlog"`
	Position    string     `db:"position"`
	Error       string     `db:"error"`
	Now         time.Time  `db:"read_at"`
}

const selectTasks = `
SELECT name, began_at, ended_at, succeeded_at, removed, backlog, position, error, UTC_TIMESTAMP(6) AS read_at
  FROM retention_task`

// States returns the state of each task of the runner, in their order. The error wraps service.ErrBusy if the
// engine is away.
func (r *Runner) States(ctx context.Context) ([]State, error) {
	var rows []row
	if err := r.pool.SelectContext(ctx, &rows, selectTasks); err != nil {
		return nil, fmt.Errorf("read the state of retention: %w", session.LookupError(err))
	}
	states := make([]State, len(r.tasks))
	for i, task := range r.tasks {
		states[i] = stateOf(task, rows)
	}
	return states, nil
}

// Retention implements service.RetentionReader. The error wraps service.ErrBusy if the engine is away.
func (r *Runner) Retention(ctx context.Context) (state service.Retention, err error) {
	var oldest []time.Time // of the txn with the lowest id
	if err := r.pool.SelectContext(ctx, &oldest, "SELECT created_at FROM zone_txn ORDER BY id LIMIT 1"); err != nil {
		return state, fmt.Errorf("look for the oldest txn: %w", session.LookupError(err))
	}
	if len(oldest) > 0 {
		state.OldestTxn.Time = oldest[0]
	}
	states, err := r.States(ctx)
	for _, s := range states {
		state.Tasks = append(state.Tasks, s.RetentionTask)
	}
	return state, err
}

func readState(ctx context.Context, conn *sqlx.Conn, task Task) (State, error) {
	var rows []row
	err := conn.SelectContext(ctx, &rows, selectTasks+" WHERE name = ?", task.Name)
	return stateOf(task, rows), err
}

// stateOf returns the state of a task among the rows of all.
func stateOf(task Task, rows []row) State {
	for _, found := range rows {
		if found.Name != task.Name {
			continue
		}
		s := State{Position: found.Position, RetentionTask: service.RetentionTask{
			Name: found.Name, BeganAt: service.At(found.BeganAt), EndedAt: service.At(known(found.EndedAt)),
			SucceededAt: service.At(known(found.SucceededAt)),
			Removed:     found.Removed, Backlog: found.Backlog, Error: found.Error,
		}}
		s.NextAt.Time = s.BeganAt.Add(task.Every)
		switch {
		case s.EndedAt.IsZero():
		case s.Error != "":
			s.NextAt.Time = s.BeganAt.Add(min(task.Every, failedPause))
		case s.Backlog:
			s.NextAt = s.EndedAt
		}
		// A clock that was set back must not stop the task for as long as it was ahead.
		s.IsDue = !found.Now.Before(s.NextAt.Time) || found.Now.Before(s.BeganAt.Add(-task.Every))
		return s
	}
	return State{RetentionTask: service.RetentionTask{Name: task.Name}, IsDue: true}
}

func known(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return *at
}

// begin notes that a run has begun.
func begin(ctx context.Context, conn *sqlx.Conn, task Task) error {
	_, err := conn.ExecContext(ctx, `
INSERT INTO retention_task (name, began_at)
VALUES (?, UTC_TIMESTAMP(6))
    ON DUPLICATE KEY UPDATE began_at = VALUES(began_at), ended_at = NULL`, task.Name)
	return err
}

// end notes the outcome of a run. Errors of this service hold no bucket key: see session.
func end(ctx context.Context, conn *sqlx.Conn, run *Run, before string) error {
	text, position := "", run.Position
	if run.Err != nil {
		text, position = service.Shortened(run.Err.Error(), longestNote), before
	}
	_, err := conn.ExecContext(ctx, `
UPDATE retention_task
   SET ended_at = UTC_TIMESTAMP(6),
       succeeded_at = IF(? = '', UTC_TIMESTAMP(6), succeeded_at),
       removed = ?,
       backlog = ?,
       position = ?,
       error = ?
 WHERE name = ?`, text, run.Removed, run.Backlog, position, text, run.Task)
	return err
}
