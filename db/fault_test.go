package db

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/DATA-DOG/go-sqlmock"
	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// Faults that a real engine will not give on demand.

func mocked(t *testing.T) (*Store, sqlmock.Sqlmock) {
	t.Helper()
	dsn := rand.Text()
	conns, mock, err := sqlmock.NewWithDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	checks := sql.OpenDB(mockConnector{conns.Driver(), dsn})
	t.Cleanup(func() { _, _ = checks.Close(), conns.Close() })
	return &Store{
		pools:    pools{checks: checks, lookUps: session.NewPool(sqlx.NewDb(conns, "mysql"), nil, 1)},
		cache:    newCache(seenPlaces),
		database: session.NewDatabase(engine.MySQL),
	}, mock
}

// mockConnector opens connections of a mock that this package takes for its own.
type mockConnector struct {
	mock driver.Driver
	dsn  string
}

func (c mockConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.mock.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	type mockConn interface {
		driver.Conn
		driver.ConnBeginTx
		driver.ConnPrepareContext
		driver.ExecerContext
		driver.QueryerContext
		driver.NamedValueChecker
		driver.Pinger
	}
	return &session.Conn{Engine: engine.MySQL, Shards: new(session.Shards), DriverConn: struct {
		mockConn
		reusable
	}{conn.(mockConn), reusable{}}, MaxPacket: 1 << 20}, nil
}

func (c mockConnector) Driver() driver.Driver { return c.mock }

// reusable has the methods that a mock's connection lacks.
type reusable struct{}

func (reusable) ResetSession(context.Context) error { return nil }
func (reusable) IsValid() bool                      { return true }

func number(n uint16) error { return &mysql.MySQLError{Number: n, Message: "by the test"} }

func answerRows() *sqlmock.Rows {
	return sqlmock.NewRows([]string{
		"blocked", "txn_id", "zone_id", "bucket_key", "rate", "window", "remaining", "retry_after", "checked_at",
		"would_block", "velocity", "reason", "override_id", "reset_after",
	})
}

func goodRow() *sqlmock.Rows {
	return answerRows().AddRow(0, 7, 1, "alice", 5, 60, 4, 0, []byte("1970-01-01 00:00:01.000000"), 0, 1, nil, nil, 0)
}

func TestFaultsOfTheEngineBecomeServiceErrors(t *testing.T) {
	t.Parallel()
	internal := errors.New("an internal fault")
	for name, step := range map[string]struct {
		answers []any // an error, or rows, for each CALL in turn
		want    error // nil: decided
	}{
		"deadlock, then success":          {[]any{number(1213), goodRow()}, nil},
		"two deadlocks, then success":     {[]any{number(1213), number(1213), goodRow()}, nil},
		"lock wait timeout three times":   {[]any{number(1205), number(1205), number(1205)}, service.ErrBusy},
		"snapshot conflict, then success": {[]any{number(1020), goodRow()}, nil},
		"procedure replaced meanwhile":    {[]any{number(1305), goodRow()}, nil},
		"procedure missing": {
			[]any{number(1305), number(1305), number(1305), number(1305), number(1305)},
			service.ErrAway,
		},
		"too many connections":             {[]any{number(1040)}, service.ErrBusy},
		"server shutting down":             {[]any{number(1053)}, service.ErrUndecided},
		"statement killed":                 {[]any{number(1317)}, service.ErrUndecided},
		"read-only server":                 {[]any{number(1290), number(1290), number(1290)}, service.ErrAway},
		"table missing":                    {[]any{number(session.NumberNoSuchTable)}, service.ErrUnfit},
		"no space for a row":               {[]any{number(1114)}, service.ErrNoSpace},
		"no space on the disk":             {[]any{number(1021)}, service.ErrNoSpace},
		"no space for the binary log":      {[]any{number(1026)}, service.ErrNoSpace},
		"no space for temporary files":     {[]any{number(3)}, service.ErrNoSpace},
		"no right to call":                 {[]any{number(1370)}, service.ErrForbidden},
		"error after the COMMIT":           {[]any{number(session.NumberUnanswered)}, service.ErrUndecided},
		"unknown error":                    {[]any{number(9999)}, internal},
		"connection cut before the answer": {[]any{mysql.ErrInvalidConn}, service.ErrUndecided},
		"connection cut in the answer":     {[]any{goodRow().RowError(0, mysql.ErrInvalidConn)}, service.ErrUndecided},
		"no row":                           {[]any{answerRows()}, service.ErrUndecided},
		"unreadable row": {
			[]any{answerRows().AddRow(0, 7, 1, "a", 5, 60, 4, 0, []byte("yesterday"), 0, 1, nil, nil, 0)}, service.ErrUndecided,
		},
		"unknown zone":                        {[]any{number(session.NumberUnknown)}, service.ErrNotFound},
		"attempt remembered at the same time": {[]any{number(session.NumberDuplicate), goodRow()}, nil},
		"key rule of yesterday":               {[]any{number(session.NumberStaleKeyRule)}, service.ErrStaleKey},
		"connection cut, end of file":         {[]any{io.ErrUnexpectedEOF}, service.ErrUndecided},
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
			decisions, err := store.CheckAll(context.Background(), service.Call{Checks: check(user("alice"))})
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
			if errors.Is(err, service.ErrAway) != errors.Is(step.want, service.ErrAway) {
				t.Errorf("err = %v: is the database away?", err)
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
	if _, err := store.CheckAll(ctx, service.Call{Checks: check(user("alice"))}); err == nil {
		t.Error("decided after the deadline")
	}
}

func TestEngineErrorsLoseValuesOnAllEngines(t *testing.T) {
	t.Parallel()
	keys := []string{"alice", "1", "try", "zone", "a", "o'brien", `"x"`, "`y`", `back\slash`, "ключ"}
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 100, time.Hour))
		// By which a unique key could not be of bucket_key alone.
		enginetest.Exec(t, d.SQL, "ALTER TABLE zone_txn REMOVE PARTITIONING")
		enginetest.Exec(t, d.SQL, "ALTER TABLE zone_txn ADD UNIQUE KEY one_of_a_bucket (bucket_key)")
		d.LeaveUnaudited()
		s := connect(t, d, session.Options{})
		for name, question := range map[string]func(key string) []service.Check{
			"a lone check":       func(key string) []service.Check { return check(user(key)) },
			"a check of several": func(key string) []service.Check { return check(user(key), user("beside "+key)) },
		} {
			texts := map[string]string{}
			for _, key := range keys {
				_, _ = ask(t.Context(), s, question(key)) // once is allowed by the index, if nothing has recorded it before
				_, err := ask(t.Context(), s, question(key))
				if err == nil {
					t.Fatalf("%s: nothing was wrong", name)
				}
				texts[err.Error()] = key
			}
			if len(texts) != 1 {
				t.Errorf("%s: the error depends on the key: %q", name, texts)
			}
			for text := range texts {
				if !strings.Contains(text, "Error 1062 (23000): Duplicate entry") || strings.ContainsAny(text, "'`\"") {
					t.Errorf("%s: %s", name, text)
				}
			}
		}
	})
}
