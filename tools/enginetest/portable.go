package enginetest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"velocityd/db/localdb"
	"velocityd/migrations"
	"velocityd/service"
)

// Portable returns a database with the portable tables and these zones, on MySQL. A store
// opened with Engine: engine.TiDB works on it as it does on TiDB: without procedures and
// triggers, all tables in one database, ids from AUTO_INCREMENT. So the DBA's helpers (SetZone,
// SetOverride) write rows and nothing else: no audit, no revision, no network of a prefix.
// Without MySQL the test is skipped, and fails if CI=true.
func Portable(tb testing.TB, zones ...service.Zone) *Database {
	tb.Helper()
	e := portableEngine(tb)
	d := e.portable.take(tb, e, MigratePortable, (*Database).empty)
	d.form = migrations.TiDB
	for _, zone := range zones {
		d.SetZone(tb, zone)
	}
	return d
}

// EmptyPortable is Empty on the server of Portable.
func EmptyPortable(tb testing.TB) *Database {
	tb.Helper()
	return portableEngine(tb).Empty(tb)
}

// MigratePortable brings a database to the newest portable tables.
func MigratePortable(tb testing.TB, dsn string) {
	tb.Helper()
	if _, err := migrations.Up(context.Background(), migrations.TiDB, dsn); err != nil {
		tb.Fatal(err)
	}
}

// portableEngine returns the server for portable databases: MySQL, or the user's server, which
// may be a TiDB.
func portableEngine(tb testing.TB) *Engine {
	tb.Helper()
	at := slices.IndexFunc(all(), func(e *Engine) bool { return e.Name == string(localdb.MySQL) || e.Name == userServer })
	if at < 0 {
		tb.Fatal("MySQL is not among the engines that the project is tested on")
	}
	engine := all()[at]
	cfg, err := engine.admin()
	if err != nil {
		missing(tb, err)
	}
	var version string
	if err := open(tb, cfg).QueryRow("SELECT VERSION()").Scan(&version); err != nil {
		tb.Fatal(err)
	}
	if strings.Contains(version, "MariaDB") {
		tb.Skip("the portable tables are not for MariaDB")
	}
	return engine
}
