package migrations_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"velocityd/db/dbtest"
	"velocityd/migrations"
)

// advice is what an ErrDirty tells its reader to run, by the case it is for.
func advice(t *testing.T, err error) map[string]string {
	t.Helper()
	if !errors.Is(err, migrations.ErrDirty) {
		t.Fatalf("got %v, want ErrDirty", err)
	}
	statements := map[string]string{}
	for _, found := range regexp.MustCompile(`(If it was|way up|way down)[^,]*, run (UPDATE [^;]+)`).
		FindAllStringSubmatch(err.Error(), -1) {
		statements[found[1]] = found[2]
	}
	return statements
}

func TestADirtySchemaIsReportedWithWhatToDo(t *testing.T) {
	t.Parallel()
	const set = "UPDATE schema_migrations SET version = "
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		for _, test := range []struct {
			at       int // golang-migrate writes -1 on the way down from 1
			version  uint
			done     string
			up, down string
		}{
			{5, 5, "5", "4", ""},
			{3, 3, "3", "2", "4"},
			{1, 1, "1", "-1", "2"},
			{-1, 0, "-1", "", "1"},
		} {
			dbtest.Exec(t, d.SQL, "UPDATE schema_migrations SET version = ?, dirty = 1", test.at)
			wantStatus(t, d, test.version, true)
			for way, err := range map[string]error{
				"up": migrations.Up(t.Context(), d.DSN), "down": migrations.Down(t.Context(), d.DSN, 1),
			} {
				got := advice(t, err)
				for situation, version := range map[string]string{"If it was": test.done, "way up": test.up, "way down": test.down} {
					want := ""
					if version != "" {
						want = set + version + ", dirty = 0"
					}
					if got[situation] != want {
						t.Errorf("%s at %d: advises %q for %q, want %q", way, test.at, got[situation], situation, want)
					}
				}
			}
		}
	})
}

// TestAFailedWayUpIsRepairedByItsOwnAdvice lets a table that is in the way stop
// each of the first three migrations, and then does what the error says.
func TestAFailedWayUpIsRepairedByItsOwnAdvice(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		want := schema(t, engine.Database(t))
		for i, table := range []string{"zone_master", "zone_bucket_lock", "zone_txn"} {
			for _, finish := range []bool{false, true} {
				d := engine.Empty(t)
				version := uint(i + 1)
				dbtest.Exec(t, d.SQL, "CREATE TABLE "+table+" (in_the_way INT)")
				failed := migrations.Up(t.Context(), d.DSN)
				if advice(t, failed); !strings.Contains(failed.Error(), "'"+table+"' already exists") {
					t.Errorf("error %q does not name %s", failed, table)
				}
				if strings.Contains(failed.Error(), "PRIMARY KEY") {
					t.Errorf("error %q repeats the whole statement", failed)
				}
				wantStatus(t, d, version, true)
				later := advice(t, migrations.Up(t.Context(), d.DSN))
				dbtest.Exec(t, d.SQL, "DROP TABLE "+table)
				if finish {
					dbtest.Exec(t, d.SQL, text(t, version, "up"))
					dbtest.Exec(t, d.SQL, later["If it was"])
				} else {
					dbtest.Exec(t, d.SQL, later["way up"])
				}
				up(t, d)
				wantStatus(t, d, migrations.Latest(), false)
				wantSchema(t, d, want)
			}
		}
	})
}

func TestAFailedWayDownIsRepairedByItsOwnAdvice(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		want := schema(t, d)
		// A table of the DBA's own keeps zone_master, the last to go.
		dbtest.Exec(t, d.SQL, "CREATE TABLE notes (zone_id INT, FOREIGN KEY (zone_id) REFERENCES zone_master (id))")
		failed := migrations.Down(t.Context(), d.DSN, 0)
		advice(t, failed)
		wantStatus(t, d, 0, true)
		later := advice(t, migrations.Down(t.Context(), d.DSN, 0))
		dbtest.Exec(t, d.SQL, later["way down"])
		wantStatus(t, d, 1, false)
		dbtest.Exec(t, d.SQL, "DROP TABLE notes")
		down(t, d, 1)
		wantStatus(t, d, 0, false)
		up(t, d)
		wantSchema(t, d, want)

		// A procedure that somebody has dropped already.
		dbtest.Exec(t, d.SQL, "DROP PROCEDURE check_velocity_batch")
		failed = migrations.Down(t.Context(), d.DSN, 1)
		wantStatus(t, d, migrations.Latest()-1, true)
		dbtest.Exec(t, d.SQL, advice(t, failed)["If it was"])
		wantStatus(t, d, migrations.Latest()-1, false)
		up(t, d)
		wantSchema(t, d, want)
	})
}

// text is the one statement of a migration.
func text(t *testing.T, version uint, way string) string {
	t.Helper()
	for _, f := range files(t) {
		if f.number == int(version) && f.way == way {
			return f.text
		}
	}
	t.Fatalf("there is no migration %d %s", version, way)
	return ""
}
