package db

import (
	"context"
	"testing"

	"velocityd/db/dbtest"
	"velocityd/service"
	"velocityd/service/servicetest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// bench is a store together with the database behind it.
type bench struct {
	service.CheckStore
	*dbtest.Database
}

var _ servicetest.Bench = bench{}

// connect returns a pool to a database with the newest schema.
func connect(t testing.TB, d *dbtest.Database, o Options) *Pool {
	t.Helper()
	o.DSN = d.DSN
	pool, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}
