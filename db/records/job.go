package records

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/retention"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/backtest"
)

var _ backtest.JobStore = (*Tables)(nil)

// jobRow is a row of zone_backtest.
type jobRow struct {
	ID       string              `db:"id"`
	ZoneID   int64               `db:"zone_id"`
	State    string              `db:"state"`
	Question []byte              `db:"question"`
	By       string              `db:"asked_by"`
	BeganAt  time.Time           `db:"began_at"`
	EndedAt  sql.Null[time.Time] `db:"ended_at"`
	Rows     int64               `db:"txns_read"`
	At       sql.Null[time.Time] `db:"read_to"`
	Fault    string              `db:"fault"`
	Result   []byte              `db:"result"`
	IsSilent bool                `db:"is_silent"`
}

// AddJob implements backtest.JobStore.
func (s *Tables) AddJob(ctx context.Context, job backtest.Job) error {
	question, err := json.Marshal(job.Query)
	if err != nil {
		return fmt.Errorf("write back-test %s as JSON: %w", job.ID, err)
	}
	err = s.pool.Exec(ctx, `
INSERT INTO zone_backtest (id, zone_id, state, question, asked_by, began_at, seen_at)
VALUES (?, ?, 'running', ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))`, job.ID, job.Query.ZoneID, string(question), job.By)
	if err != nil {
		return fmt.Errorf("add back-test %s: %w", job.ID, session.WriteError(err))
	}
	return nil
}

// Job implements backtest.JobStore. The error wraps service.ErrBusy if the engine is away.
func (s *Tables) Job(ctx context.Context, id string) (job backtest.Job, err error) {
	var rows []jobRow
	err = s.pool.SelectContext(ctx, &rows, `
SELECT id, zone_id, state, question, asked_by, began_at, ended_at, txns_read, read_to, fault, result,
       seen_at < UTC_TIMESTAMP(6) - INTERVAL ? SECOND AS is_silent
  FROM zone_backtest
 WHERE id = ?`, int64(backtest.JobSilence.Seconds()), id)
	switch {
	case err != nil:
		return job, fmt.Errorf("read a back-test: %w", session.LookupError(err))
	case len(rows) == 0:
		return job, fmt.Errorf("back-test: %w", service.ErrNotFound)
	}
	return rows[0].job()
}

func (r jobRow) job() (backtest.Job, error) {
	job := backtest.Job{
		ID: r.ID, State: backtest.JobState(r.State), By: r.By, BeganAt: service.At(r.BeganAt),
		EndedAt: service.At(r.EndedAt.V), Rows: r.Rows, At: service.At(r.At.V), Fault: r.Fault,
	}
	if job.State == backtest.JobRunning && r.IsSilent {
		job.State, job.Fault = backtest.JobLost, "its instance gives no sign any more"
	}
	err := json.Unmarshal(r.Question, &job.Query)
	job.ZoneID, job.Query.ZoneID, job.Since, job.Until = r.ZoneID, r.ZoneID, job.Query.Since, job.Query.Until
	if len(r.Result) > 0 {
		job.Result = new(backtest.Result)
		err = errors.Join(err, json.Unmarshal(r.Result, job.Result))
	}
	if err != nil {
		// Err would quote keys.
		return job, fmt.Errorf("back-test %s cannot be read: another version of the program wrote it", r.ID)
	}
	return job, nil
}

// BeatJob implements backtest.JobStore.
func (s *Tables) BeatJob(ctx context.Context, id string, rows int64, at time.Time) (isCancelled bool, err error) {
	var read *time.Time
	if !at.IsZero() {
		read = &at
	}
	err = s.pool.Exec(ctx, `
UPDATE zone_backtest
   SET seen_at = UTC_TIMESTAMP(6),
       txns_read = ?,
       read_to = ?
 WHERE id = ?
   AND state = 'running'`, rows, read, id)
	var states []string
	if err == nil {
		err = s.pool.SelectContext(ctx, &states, "SELECT state FROM zone_backtest WHERE id = ?", id)
	}
	if err != nil {
		return false, session.WriteError(err)
	}
	return len(states) == 0 || states[0] != string(backtest.JobRunning), nil
}

// EndJob implements backtest.JobStore.
func (s *Tables) EndJob(ctx context.Context, job backtest.Job) error {
	var result *string
	if job.Result != nil {
		text, err := json.Marshal(job.Result)
		if err != nil {
			return fmt.Errorf("write the result of back-test %s as JSON: %w", job.ID, err)
		}
		result = new(string(text))
	}
	return session.WriteError(s.pool.Exec(ctx, `
UPDATE zone_backtest
   SET state = ?,
       ended_at = UTC_TIMESTAMP(6),
       txns_read = ?,
       fault = ?,
       result = ?
 WHERE id = ?
   AND state = 'running'`, job.State, job.Rows, job.Fault, result, job.ID))
}

// CancelJob implements backtest.JobStore.
func (s *Tables) CancelJob(ctx context.Context, id string) error {
	err := s.pool.Exec(ctx, `
UPDATE zone_backtest
   SET state = 'cancelled',
       ended_at = UTC_TIMESTAMP(6),
       fault = 'cancelled by a caller'
 WHERE id = ?
   AND state = 'running'`, id)
	if err != nil {
		return fmt.Errorf("cancel a back-test: %w", session.WriteError(err))
	}
	return nil
}

// OldJobs returns the task of retention that forgets old back-tests.
func OldJobs() retention.Task {
	old := retention.OldRows{
		What: "back-tests", From: "zone_backtest WHERE began_at < UTC_TIMESTAMP(6) - INTERVAL ? SECOND",
		Args: []any{int64(backtest.JobKept.Seconds())},
	}
	return retention.Old("old_backtests", func(context.Context, *sqlx.Conn) ([]retention.OldRows, error) {
		return []retention.OldRows{old}, nil
	})
}
