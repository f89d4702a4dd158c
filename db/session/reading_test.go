package session

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"

	"velocityd/db/dbtest"
)

func TestAnAnswerOfAnotherShapeIsAMisfit(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		c, err := NewConnector(Options{DSN: engine.Empty(t).DSN, LockWait: DefaultLockWait}, new(Database), ForLanes)
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]error{
			"SELECT 1; SELECT 2;":           nil,
			"SELECT 1, 2; SELECT 3;":        ErrMisfit, // a column more
			"SELECT 1;":                     ErrMisfit, // a result less
			"SELECT 1; SELECT 2; SELECT 3;": ErrMisfit, // a result more
		} {
			conn, err := c.Connect(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			own := conn.(*Conn)
			r := own.Reading()
			r.SQL(text)
			for range 2 {
				r.Each(1, func([]driver.Value) error { return nil })
			}
			if err := r.Send(t.Context(), own); !errors.Is(err, want) || EndsSession(err) != (want != nil) {
				t.Errorf("%s: got %v, want %v", text, err, want)
			}
			if err := own.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
