package db

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/DATA-DOG/go-sqlmock"
	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"velocityd/service"
)

// Faults that a real engine will not give on demand.

func mocked(t *testing.T) (*ProcStore, sqlmock.Sqlmock) {
	t.Helper()
	conns, mock, err := sqlmock.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conns.Close() })
	return NewProcStore(&Pool{db: sqlx.NewDb(conns, "mysql")}), mock
}

func number(n uint16) error { return &mysql.MySQLError{Number: n, Message: "by the test"} }

func answerRows() *sqlmock.Rows {
	return sqlmock.NewRows([]string{
		"blocked", "txn_id", "zone_id", "bucket_key", "rate", "window", "remaining", "retry_after", "checked_at",
		"would_block", "velocity",
	})
}

func goodRow() *sqlmock.Rows {
	return answerRows().AddRow(false, 7, 1, "alice", 5, 60, 4, 0, time.Unix(1, 0).UTC(), false, 1)
}

func batchRows() *sqlmock.Rows {
	return sqlmock.NewRows([]string{
		"check_no", "bucket_no", "status", "blocked", "would_block", "txn_id", "rate", "window", "velocity",
		"remaining", "retry_after", "checked_at",
	}).AddRow(0, 0, "decided", false, false, 7, 5, 60, 1, 4, 0, time.Unix(1, 0).UTC())
}

func TestFaultsOfTheEngineBecomeServiceErrors(t *testing.T) {
	t.Parallel()
	internal := errors.New("an internal fault")
	for name, step := range map[string]struct {
		answers []any // an error, or rows, for each CALL in turn
		want    error // nil: decided
		batch   bool
	}{
		"deadlock, then success":              {[]any{number(1213), goodRow()}, nil, false},
		"two deadlocks, then success":         {[]any{number(1213), number(1213), goodRow()}, nil, false},
		"lock wait timeout three times":       {[]any{number(1205), number(1205), number(1205)}, service.ErrBusy, false},
		"snapshot conflict, then success":     {[]any{number(1020), goodRow()}, nil, false},
		"procedure replaced meanwhile":        {[]any{number(1305), goodRow()}, nil, false},
		"procedure missing":                   {[]any{number(1305), number(1305)}, internal, false},
		"too many connections":                {[]any{number(1040)}, service.ErrBusy, false},
		"server shutting down":                {[]any{number(1053)}, service.ErrUndecided, false},
		"statement killed":                    {[]any{number(1317)}, service.ErrUndecided, false},
		"read-only server":                    {[]any{number(1290)}, service.ErrBusy, false},
		"no right to call":                    {[]any{number(1370)}, service.ErrForbidden, false},
		"error after the COMMIT":              {[]any{number(errUnanswered)}, service.ErrUndecided, false},
		"error that nobody knows":             {[]any{number(9999)}, internal, false},
		"connection cut before the answer":    {[]any{mysql.ErrInvalidConn}, service.ErrUndecided, false},
		"connection cut in the answer":        {[]any{goodRow().RowError(0, mysql.ErrInvalidConn)}, service.ErrUndecided, false},
		"no row":                              {[]any{answerRows()}, service.ErrUndecided, false},
		"unreadable row":                      {[]any{answerRows().AddRow("x", 7, 1, "a", 5, 60, 4, 0, time.Time{}, false, 1)}, service.ErrUndecided, false},
		"batch: error after the first row":    {[]any{batchRows().RowError(1, mysql.ErrInvalidConn).AddRow(0, 1, "decided", false, false, 8, 5, 60, 1, 4, 0, time.Unix(1, 0).UTC())}, service.ErrUndecided, true},
		"batch: deadlock after nothing":       {[]any{number(1213), number(1213), number(1213)}, service.ErrBusy, true},
		"batch: fewer rows than buckets":      {[]any{batchRows()}, service.ErrUndecided, true},
		"unknown zone":                        {[]any{number(errUnknown)}, service.ErrNotFound, false},
		"attempt remembered at the same time": {[]any{number(errDuplicate), goodRow()}, nil, false},
		"key rule of yesterday":               {[]any{number(errStaleKeyRule)}, service.ErrStaleKey, false},
		"connection cut, end of file":         {[]any{io.ErrUnexpectedEOF}, service.ErrUndecided, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, mock := mocked(t)
			for _, answer := range step.answers {
				expected := mock.ExpectQuery("CALL check_velocity")
				if err, ok := answer.(error); ok {
					expected.WillReturnError(err)
				} else {
					expected.WillReturnRows(answer.(*sqlmock.Rows))
				}
			}
			checks := check(user("alice"))
			if step.batch {
				checks = check(user("alice"), user("bob"))
			}
			decisions, err := store.CheckAll(context.Background(), checks)
			if err == nil {
				err = decisions[0].Err
			}
			if errors.Is(step.want, internal) {
				for _, kind := range []error{nil, service.ErrBusy, service.ErrUndecided, service.ErrInvalid, service.ErrNotFound} {
					if errors.Is(err, kind) {
						t.Errorf("err = %v, want an internal fault", err)
					}
				}
			} else if !errors.Is(err, step.want) {
				t.Errorf("err = %v, want %v", err, step.want)
			}
			if err := mock.ExpectationsWereMet(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRetriesEndWithTheDeadline(t *testing.T) {
	t.Parallel()
	store, mock := mocked(t)
	mock.ExpectQuery("CALL check_velocity").WillDelayFor(50 * time.Millisecond).WillReturnError(number(1213))
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Millisecond)
	defer cancel()
	if _, err := store.CheckAll(ctx, check(user("alice"))); err == nil {
		t.Error("decided after the deadline")
	}
}
