package db

import (
	"testing"

	"velocityd/db/dbtest"
	"velocityd/db/engine"
	"velocityd/db/session"
	"velocityd/service"
)

// form is a kind of database that carries out the rules: an engine with procedures and triggers,
// or MySQL with the portable tables, which have none.
type form struct {
	engine *dbtest.Engine // nil for the portable tables
}

// eachForm runs test on every engine, and on the portable tables.
func eachForm(t *testing.T, test func(t *testing.T, f form)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) { test(t, form{engine}) })
	t.Run("portable", func(t *testing.T) {
		t.Parallel()
		test(t, form{})
	})
}

func (f form) database(tb testing.TB, zones ...service.Zone) *dbtest.Database {
	tb.Helper()
	if f.engine == nil {
		return dbtest.Portable(tb, zones...)
	}
	return f.engine.Database(tb, zones...)
}

func (f form) connect(tb testing.TB, d *dbtest.Database, o session.Options) *Store {
	tb.Helper()
	if f.engine == nil {
		var version, comment string
		if err := d.SQL.QueryRow("SELECT VERSION(), @@version_comment").Scan(&version, &comment); err != nil {
			tb.Fatal(err)
		}
		if o.Engine = engine.Of(version, comment); o.Engine == engine.MySQL {
			o.Engine = engine.TiDB
		}
	}
	return connect(tb, d, o)
}

func (f form) stand(tb testing.TB, o session.Options, zones ...service.Zone) (*dbtest.Database, *Store) {
	tb.Helper()
	d := f.database(tb, zones...)
	return d, f.connect(tb, d, o)
}
