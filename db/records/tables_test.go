package records

import (
	"errors"
	"testing"

	"github.com/DATA-DOG/go-sqlmock"
	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/service"
)

func TestEditWithKilledCommitMayHaveHappened(t *testing.T) {
	t.Parallel()
	number := func(n uint16) error { return &mysql.MySQLError{Number: n} }
	for err, want := range map[error]error{
		number(1053): service.ErrUndecided, number(1317): service.ErrUndecided, number(1927): service.ErrUndecided,
		mysql.ErrInvalidConn: service.ErrUndecided, number(1213): service.ErrBusy, number(1290): service.ErrAway,
	} {
		conns, mock, mockErr := sqlmock.New()
		if mockErr != nil {
			t.Fatal(mockErr)
		}
		defer conns.Close()
		edits := New(session.NewPool(sqlx.NewDb(conns, "mysql"), nil, 1), nil)
		mock.ExpectBegin()
		mock.ExpectCommit().WillReturnError(err)
		if got := session.WriteError(edits.inTx(t.Context(), func(*sqlx.Tx) error { return nil })); !errors.Is(got, want) {
			t.Errorf("%v at the COMMIT: %v, want %v", err, got, want)
		}
	}
}
