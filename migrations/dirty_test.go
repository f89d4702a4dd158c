package migrations_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"velocityd/migrations"
	"velocityd/tools/enginetest"
	"velocityd/tools/nightly"
)

// advice has the commands that an ErrDirty tells its reader to run, by their case.
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

func TestDirtySchemaIsReportedWithItsCure(t *testing.T) {
	t.Parallel()
	const set = "UPDATE schema_migrations SET version = "
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		for _, test := range []struct {
			at       int // golang-migrate writes -1 on the way down from 1
			version  uint
			done     string
			up, down string
		}{
			{7, 7, "7", "6", "8"},
			{1, 1, "1", "-1", "2"},
			{-1, 0, "-1", "", "1"},
		} {
			enginetest.Exec(t, d.SQL, "UPDATE schema_migrations SET version = ?, dirty = 1", test.at)
			wantStatus(t, d, test.version, true)
			_, upErr := migrations.Up(t.Context(), migrations.MySQL, d.DSN)
			_, downErr := migrations.Down(t.Context(), migrations.MySQL, d.DSN, 1)
			for way, err := range map[string]error{"up": upErr, "down": downErr} {
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

// TestFailedUpIsRepairedByItsOwnAdvice lets a table of the same name stop a
// step, and then follows the error's advice.
func TestFailedUpIsRepairedByItsOwnAdvice(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		want := schema(t, engine.Database(t))
		for version, table := range map[uint]string{1: "zone_master", 3: "zone_txn"} {
			for _, finish := range []bool{false, true} {
				if finish != (version == 3) && !nightly.Is() { // one way of each table
					continue
				}
				d := engine.Empty(t)
				enginetest.Exec(t, d.SQL, "CREATE TABLE "+table+" (in_the_way INT)")
				_, failed := migrations.Up(t.Context(), migrations.MySQL, d.DSN)
				if advice(t, failed); !strings.Contains(failed.Error(), "'"+table+"' already exists") {
					t.Errorf("error %q does not say that %s exists", failed, table)
				}
				if strings.Contains(failed.Error(), "CREATE ") {
					t.Errorf("error %q repeats the whole statement", failed)
				}
				wantStatus(t, d, version, true)
				_, again := migrations.Up(t.Context(), migrations.MySQL, d.DSN)
				later := advice(t, again)
				enginetest.Exec(t, d.SQL, "DROP TABLE "+table)
				if finish {
					carryOut(t, d, text(t, version, "up"))
					enginetest.Exec(t, d.SQL, later["If it was"])
				} else {
					enginetest.Exec(t, d.SQL, later["way up"])
				}
				up(t, d)
				wantStatus(t, d, migrations.Latest(), false)
				wantSchema(t, d, want)
			}
		}
	})
}

func TestFailedDownIsRepairedByItsOwnAdvice(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		want := schema(t, d)
		// A table of the DBA's own keeps zone_master, the last to go.
		enginetest.Exec(t, d.SQL, "CREATE TABLE notes (zone_id INT, FOREIGN KEY (zone_id) REFERENCES zone_master (id))")
		_, failed := migrations.Down(t.Context(), migrations.MySQL, d.DSN, 0)
		advice(t, failed)
		wantStatus(t, d, 0, true)
		enginetest.Exec(t, d.SQL, advice(t, failed)["way down"])
		wantStatus(t, d, 1, false)
		enginetest.Exec(t, d.SQL, "DROP TABLE notes")
		down(t, d, 1)
		wantStatus(t, d, 0, false)
		up(t, d)
		wantSchema(t, d, want)
	})
}

// carryOut runs a migration's statement as the runner does.
func carryOut(t *testing.T, d *enginetest.Database, statement string) {
	t.Helper()
	pool, _, err := migrations.Open(d.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	enginetest.Exec(t, pool, statement)
}

// text is the one statement of a migration.
func text(t *testing.T, version uint, way string) string {
	t.Helper()
	for _, f := range files(t, ".") {
		if f.number == int(version) && f.way == way {
			return f.text
		}
	}
	t.Fatalf("there is no migration %d %s", version, way)
	return ""
}

func TestPreReleaseDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		for _, version := range []int{46, 116, 209} {
			enginetest.Exec(t, d.SQL, "UPDATE schema_migrations SET version = ?", version)
			if _, err := migrations.Up(t.Context(), migrations.MySQL, d.DSN); err == nil ||
				!strings.Contains(err.Error(), "make a new database") {
				t.Errorf("version %d: %v, want to be told to make a new database", version, err)
			}
		}
	})
}
