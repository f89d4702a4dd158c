package enginetest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"velocityd/internal/engine"
	"velocityd/migrations"
	"velocityd/service"
)

// Database is a database of one test until its end.
type Database struct {
	// DSN reaches it, in the form that velocityd takes.
	DSN string
	// SQL is a plain connection pool to it, for the test's own statements. Its
	// sessions are NOT those of package db.
	SQL *sql.DB

	name  string
	admin *sql.DB // reaches the server, without a database
	kept  bool    // for another test
	form  engine.Engine

	// The test's direct writes to txns.
	isUnaudited, hasAgedRows bool
}

// Database returns a database with the newest schema and these zones, and nothing else. Its
// tables may be those of a test that has ended: see databasePool.
func (e *Engine) Database(tb testing.TB, zones ...service.Zone) *Database {
	tb.Helper()
	d := e.pool.take(tb, e, Migrate, (*Database).empty)
	for _, zone := range zones {
		d.SetZone(tb, zone)
	}
	return d
}

// Rows is Database for a test that changes nothing but rows, and needs no certain ids. It costs a fraction.
func (e *Engine) Rows(tb testing.TB, zones ...service.Zone) *Database {
	tb.Helper()
	d := e.rows.take(tb, e, Migrate, (*Database).clear)
	for _, zone := range zones {
		d.SetZone(tb, zone)
	}
	return d
}

// Migrate brings a database to the newest schema.
func Migrate(tb testing.TB, dsn string) {
	tb.Helper()
	if _, err := migrations.Up(context.Background(), migrations.MySQL, dsn); err != nil {
		tb.Fatal(err)
	}
}

// Empty makes a fresh database without any table.
func (e *Engine) Empty(tb testing.TB) *Database {
	tb.Helper()
	return Empty(tb, e.adminDSN(tb))
}

func (e *Engine) adminDSN(tb testing.TB) string {
	tb.Helper()
	base, err := e.admin()
	if err != nil {
		missing(tb, err)
	}
	return base.FormatDSN()
}

// Empty makes a fresh database without any table on the server of an admin's
// DSN.
func Empty(tb testing.TB, adminDSN string) *Database {
	tb.Helper()
	d := connect(tb, adminDSN, "velocityd_test_"+strings.ToLower(rand.Text()[:12]))
	// A hostile default shows everything that the schema does not say.
	Exec(tb, d.admin, "CREATE DATABASE "+d.name+" CHARACTER SET latin1")
	AtEnd(tb, func() {
		if d.hasHistory() {
			d.auditAtEnd(tb)
		}
		d.drop()
	})
	return d
}

// hasHistory says that the database has txns. The server may be gone by the test's own hand.
func (d *Database) hasHistory() bool {
	var one int
	return d.SQL.QueryRow("SELECT 1 FROM zone_txn JOIN zone_audit LIMIT 1").Scan(&one) == nil
}

// drop drops the database unless it is kept. The test may have ended the server, and the database with it.
func (d *Database) drop() {
	if !d.kept {
		_, _ = d.admin.Exec("DROP DATABASE IF EXISTS " + d.name)
	}
}

// connect returns the database of this name on the server of an admin's DSN. It does not make
// it.
func connect(tb testing.TB, adminDSN, name string) *Database {
	tb.Helper()
	cfg, err := mysql.ParseDSN(adminDSN)
	if err != nil {
		tb.Fatal("parse admin dsn: unreadable")
	}
	cfg.DBName = ""
	cfg.ParseTime = true
	plain := cfg.Clone()
	plain.DBName, plain.Params = name, nil // velocityd takes no variables from a DSN
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["lock_wait_timeout"] = "20" // DROP DATABASE behind a forgotten transaction
	admins := cfg.Clone()
	admins.Params["foreign_key_checks"] = "0" // TRUNCATE of a table that others refer to
	cfg.DBName = name
	return &Database{DSN: plain.FormatDSN(), SQL: open(tb, cfg), name: name, admin: open(tb, admins)}
}

func open(tb testing.TB, cfg *mysql.Config) *sql.DB {
	tb.Helper()
	cfg = cfg.Clone()               // several tests may share it
	cfg.Logger = &mysql.NopLogger{} // tests stop servers on purpose
	// Where many schemas come and go, a statement that is prepared first can be told
	// to be prepared again, without end (MariaDB: error 1615).
	cfg.InterpolateParams = true
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	pool := sql.OpenDB(connector)
	AtEnd(tb, func() { _ = pool.Close() })
	return pool
}

// Exec runs one statement and fails the test if the engine refuses it.
func Exec(tb testing.TB, on interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, query string, args ...any,
) {
	tb.Helper()
	if _, err := on.ExecContext(context.Background(), query, args...); err != nil {
		tb.Fatalf("%.1000s: %v", query, err)
	}
}

// Count returns the one number that a query answers with.
func (d *Database) Count(tb testing.TB, query string, args ...any) int {
	tb.Helper()
	var n int
	if err := d.SQL.QueryRow(query, args...).Scan(&n); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return n
}

// WantCount wants the one number that a query answers with.
func (d *Database) WantCount(tb testing.TB, want int, query string, args ...any) {
	tb.Helper()
	if n := d.Count(tb, query, args...); n != want {
		tb.Errorf("%s: %d, want %d", query, n, want)
	}
}
