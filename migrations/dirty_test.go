package migrations_test

import (
	"errors"
	"fmt"
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
		latest := migrations.Latest()
		for _, test := range []struct {
			at       int // golang-migrate writes -1 on the way down from 1
			version  uint
			done     string
			up, down string
		}{
			{int(latest), latest, fmt.Sprint(latest), fmt.Sprint(latest - 1), ""},
			{8, 8, "8", "7", "9"}, // a trigger
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

// TestAFailedWayUpIsRepairedByItsOwnAdvice lets something of the same name stop
// a migration, and then does what the error says.
func TestAFailedWayUpIsRepairedByItsOwnAdvice(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		want := schema(t, engine.Database(t))
		for _, test := range []struct {
			version          uint
			make, drop, says string
		}{
			{1, "CREATE TABLE zone_master (in_the_way INT)", "DROP TABLE zone_master", "'zone_master' already exists"},
			{2, "CREATE TABLE zone_bucket_lock (in_the_way INT)", "DROP TABLE zone_bucket_lock", "'zone_bucket_lock' already exists"},
			{3, "CREATE TABLE zone_txn (in_the_way INT)", "DROP TABLE zone_txn", "'zone_txn' already exists"},
			{
				13, "CREATE TRIGGER zone_master_before_update BEFORE UPDATE ON notes FOR EACH ROW SET NEW.id = 1",
				"DROP TRIGGER zone_master_before_update", "already exists",
			},
			{23, "CREATE PROCEDURE find_override() SELECT 1", "DROP PROCEDURE find_override", "find_override already exists"},
		} {
			for _, finish := range []bool{false, true} {
				d := engine.Empty(t)
				dbtest.Exec(t, d.SQL, "CREATE TABLE notes (id INT)")
				dbtest.Exec(t, d.SQL, test.make)
				failed := migrations.Up(t.Context(), d.DSN)
				if advice(t, failed); !strings.Contains(failed.Error(), test.says) {
					t.Errorf("error %q does not say %s", failed, test.says)
				}
				if strings.Contains(failed.Error(), "CREATE ") {
					t.Errorf("error %q repeats the whole statement", failed)
				}
				wantStatus(t, d, test.version, true)
				later := advice(t, migrations.Up(t.Context(), d.DSN))
				dbtest.Exec(t, d.SQL, test.drop)
				if finish {
					carryOut(t, d, text(t, test.version, "up"))
					dbtest.Exec(t, d.SQL, later["If it was"])
				} else {
					dbtest.Exec(t, d.SQL, later["way up"])
				}
				up(t, d)
				wantStatus(t, d, migrations.Latest(), false)
				dbtest.Exec(t, d.SQL, "DROP TABLE notes")
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

		// A procedure and a trigger that somebody has dropped already.
		for drop, version := range map[string]uint{
			"DROP PROCEDURE release_bucket": 39, "DROP TRIGGER zone_override_after_delete": 22,
		} {
			dbtest.Exec(t, d.SQL, drop)
			failed = migrations.Down(t.Context(), d.DSN, int(migrations.Latest()-version)+1)
			wantStatus(t, d, version-1, true)
			dbtest.Exec(t, d.SQL, advice(t, failed)["If it was"])
			wantStatus(t, d, version-1, false)
			up(t, d)
			wantSchema(t, d, want)
		}
	})
}

// carryOut runs a migration's statement as the runner does.
func carryOut(t *testing.T, d *dbtest.Database, statement string) {
	t.Helper()
	pool, _, err := migrations.Open(d.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	dbtest.Exec(t, pool, statement)
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
