package migrations_test

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"velocityd/db/dbtest"
	"velocityd/migrations"
)

// version46 makes a database as it was before the steps were squashed.
func version46(t *testing.T, engine *dbtest.Engine) *dbtest.Database {
	t.Helper()
	text, err := os.ReadFile("testdata/version46.sql")
	if err != nil {
		t.Fatal(err)
	}
	d := engine.Empty(t)
	for _, statement := range strings.Split(strings.TrimSpace(string(text)), ";\n") {
		carryOut(t, d, strings.TrimSuffix(statement, ";"))
	}
	return d
}

// useVersion46 writes rows into every table of version 46.
func useVersion46(t *testing.T, d *dbtest.Database) {
	t.Helper()
	d.LeaveUnaudited() // its txns were written by hand
	for _, statement := range []string{
		"INSERT INTO zone_master (id, rate, `window`, key_kind, overridden, revision) VALUES (1, 5, 60, 'ip', 1, 7), (2, 0, 9, 'opaque', 0, 1)",
		"INSERT INTO zone_bucket_lock VALUES (1, '10.0.0.1', '2026-01-02 03:04:05.6', 60000000), (2, 'bob ', NULL, 0)",
		"INSERT INTO zone_txn VALUES (1, '2026-01-02', 1, '10.0.0.1', 1, 0, 0, NULL, 'try-1', 1, 1, 2), " +
			"(2, '2026-01-02', 2, 'bob ', 1, 1, 0, NULL, 'try-1', 1, 1, 2), (5, '2026-01-03', 2, 'bob ', 0, 0, 1, 'success', NULL, NULL, NULL, NULL)",
		"INSERT INTO zone_attempt VALUES ('try-1', '2026-01-02', '2026-01-09', '[[1,\"10.0.0.1\",1,0,1,5,60,5,0,60]]')",
		"INSERT INTO zone_override (zone_id, prefix, network, action, reason) VALUES (1, '10.0.0.0/8', '4:00001010', 'deny', 'botnet')",
		"INSERT INTO zone_override_kind VALUES (1, 4, 8)",
		"INSERT INTO zone_audit (changed_at, changed_by, subject, action, zone_id) VALUES ('2026-01-01', 'root@localhost', 'zone', 'insert', 1)",
	} {
		dbtest.Exec(t, d.SQL, statement)
	}
}

// cells returns all values of all tables, 'table.column=value' once for each row
// that has it, by the tables' present names.
func cells(t *testing.T, d *dbtest.Database) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, line := range rows(t, d, "SELECT table_name AS t FROM information_schema.tables WHERE table_schema = DATABASE() "+
		"AND table_name LIKE 'zone%'") {
		table := strings.TrimPrefix(line, "t=")
		for _, row := range rows(t, d, "SELECT * FROM "+table) {
			for _, cell := range strings.Split(row, " | ") {
				found[strings.Replace(table, "zone_override_kind", "zone_override_prefix_length", 1)+"."+cell]++
			}
		}
	}
	return found
}

func TestADatabaseOfVersion46IsBroughtUpWithAllItsRows(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := version46(t, engine)
		useVersion46(t, d)
		before := cells(t, d)
		done, err := migrations.Up(t.Context(), d.DSN)
		if err != nil || done.From != 46 || done.To != migrations.Latest() {
			t.Fatalf("got %+v, %v", done, err)
		}
		wantSchema(t, d, schema(t, engine.Database(t)))
		after := cells(t, d)
		columns := rows(t, d, "SELECT CONCAT(table_name, '.', column_name) AS c FROM information_schema.columns WHERE table_schema = DATABASE()")
		for cell, n := range before {
			name := strings.TrimSuffix(strings.SplitN(cell, "=", 2)[0], " is NULL")
			if slices.Contains(columns, "c="+name) && after[cell] != n {
				t.Errorf("%s: %d times before, %d times after", cell, n, after[cell])
			}
		}
		for _, table := range []string{
			"zone_master", "zone_bucket_lock", "zone_txn", "zone_attempt", "zone_override", "zone_override_prefix_length", "zone_audit",
		} {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(before)), func(c string) bool { return strings.HasPrefix(c, table+".") }) {
				t.Errorf("there was no row in %s that could be lost", table)
			}
		}
	})
}

func TestChecksOfVersion46KeepTheirTxnsTogether(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := version46(t, engine)
		const call = 101893425364074502 // as UUID_SHORT() makes them
		for id, check := range [][2]any{{0, 2}, {0, 2}, {1, 2}, {1, 2}, {nil, nil}, {nil, nil}, {999, 1}} {
			dbtest.Exec(t, d.SQL, "INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, counted, call_id, check_no, check_buckets) "+
				"VALUES (?, '2026-01-02', 1, 'a', 0, 0, 1, ?, ?, ?)", id+1, call+id/6, check[0], check[1])
		}
		up(t, d)
		got := rows(t, d, "SELECT GROUP_CONCAT(id ORDER BY id) AS ids FROM zone_txn WHERE check_id IS NOT NULL GROUP BY check_id ORDER BY MIN(id)")
		if want := []string{"ids=1,2", "ids=3,4", "ids=7"}; !slices.Equal(got, want) {
			t.Errorf("txns of one check: %q, want %q", got, want)
		}
	})
}

func TestAHalfDoneAdoptionGoesOn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := version46(t, engine)
		carryOut(t, d, sqlFiles(t, "earlier")["earlier/000047_zone_override_prefix_length.up.sql"])
		dbtest.Exec(t, d.SQL, "UPDATE schema_migrations SET version = 47")
		up(t, d)
		wantStatus(t, d, migrations.Latest(), false)
		wantSchema(t, d, schema(t, engine.Database(t)))
	})
}

// The tables of versions 107 to 119 are those of version 46 with some of the steps that adopt.
func TestADatabaseOfBeforeTheSecondSquashIsBroughtUp(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		want := schema(t, engine.Database(t))
		for version, dirty := range map[int]bool{107: false, 110: false, 112: true, 114: false, 115: false, 119: true} {
			d := version46(t, engine)
			for _, f := range files(t, "earlier") {
				if f.number <= version {
					carryOut(t, d, f.text)
				}
			}
			if version >= 115 {
				carryOut(t, d, text(t, 208, "up"))
			}
			dbtest.Exec(t, d.SQL, "UPDATE schema_migrations SET version = ?, dirty = ?", version, dirty)
			up(t, d)
			wantStatus(t, d, migrations.Latest(), false)
			wantSchema(t, d, want)
		}
	})
}

func TestADatabaseOfAnEarlierVersionIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := version46(t, engine)
		before := schema(t, d)
		for version, dirty := range map[int]bool{1: false, 45: false, 12: true, 46: true, 52: false, 101: false, 106: true, 115: true} {
			dbtest.Exec(t, d.SQL, "UPDATE schema_migrations SET version = ?, dirty = ?", version, dirty)
			_, upErr := migrations.Up(t.Context(), d.DSN)
			_, downErr := migrations.Down(t.Context(), d.DSN, 0)
			for _, err := range []error{upErr, downErr} {
				if err == nil || !strings.Contains(err.Error(), "before the first release") {
					t.Errorf("version %d, dirty %v: %v", version, dirty, err)
				}
			}
			if dirty && !errors.Is(downErr, migrations.ErrDirty) {
				t.Errorf("version %d is dirty: %v", version, downErr)
			}
			wantStatus(t, d, uint(version), dirty)
		}
		wantSchema(t, d, before)
	})
}
