package migrations_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"velocityd/db/dbtest"
	"velocityd/migrations"
)

func TestUpThenDownThenUpLeavesTheSameSchema(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Empty(t)
		up(t, d)
		want := schema(t, d)
		if got := objects(t, d); !slices.Equal(got, newest()) {
			t.Errorf("the newest schema holds %q, want %q", got, newest())
		}
		down(t, d, 0)
		if got := objects(t, d); !slices.Equal(got, []string{"schema_migrations"}) {
			t.Errorf("down left %q behind", got)
		}
		wantStatus(t, d, 0, false)
		up(t, d)
		wantStatus(t, d, migrations.Latest(), false)
		wantSchema(t, d, want)
	})
}

// newest names all that the newest schema holds.
func newest() []string {
	return slices.Sorted(slices.Values(strings.Fields(`
schema_migrations zone_master zone_bucket_lock zone_txn zone_attempt zone_override zone_override_kind zone_audit
zone_master_before_insert zone_master_before_update
zone_master_after_insert zone_master_after_update zone_master_after_delete
zone_override_before_insert zone_override_before_update
zone_override_after_insert zone_override_after_update zone_override_after_delete
find_override find_attempt find_check find_held forget_counted lock_out record_outcomes
check_velocity check_velocity_keyed check_velocity_batch find_overrides decide_together decide_in_turn peek_velocity report_outcome report_outcomes release_bucket`)))
}

// TestAFreshDatabaseHasTheSameSchema holds the short way, for tests, against the
// real one.
func TestAFreshDatabaseHasTheSameSchema(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		long, short := engine.Empty(t), engine.Empty(t)
		up(t, long)
		if err := migrations.Fresh(t.Context(), short.DSN); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, short, migrations.Latest(), false)
		wantSchema(t, short, schema(t, long))
		up(t, short) // nothing to do
		down(t, short, 0)
		if got := objects(t, short); !slices.Equal(got, []string{"schema_migrations"}) {
			t.Errorf("down left %q behind", got)
		}
		if err := migrations.Fresh(t.Context(), short.DSN); err == nil {
			t.Error("a database with a schema_migrations was taken for a fresh one")
		}
	})
}

func TestUpAgainChangesNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Empty(t)
		up(t, d)
		want := schema(t, d)
		dbtest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`) VALUES (1, 5, 60)")
		up(t, d)
		wantSchema(t, d, want)
		wantStatus(t, d, migrations.Latest(), false)
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_master"); n != 1 {
			t.Errorf("%d zones are left of 1", n)
		}
	})
}

// made is how many objects there are at a version, by what the texts create and
// drop, with golang-migrate's own table.
func made(t *testing.T, version uint) int {
	t.Helper()
	objects := 1
	for v := uint(1); v <= version; v++ {
		switch statement := text(t, v, "up"); {
		case regexp.MustCompile(`(?m)^CREATE `).MatchString(statement):
			objects++
		case regexp.MustCompile(`(?m)^DROP `).MatchString(statement):
			objects--
		}
	}
	return objects
}

func TestDownGoesByStepsAndUpComesBackFromEach(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Empty(t)
		up(t, d)
		want := schema(t, d)
		// Each of the newest few, and then in greater steps: each way back up takes all.
		for _, steps := range []int{1, 2, 3, 5, 8, 13, int(migrations.Latest()) - 1, int(migrations.Latest())} {
			down(t, d, steps)
			wantStatus(t, d, migrations.Latest()-uint(steps), false)
			if got, want := objects(t, d), made(t, migrations.Latest()-uint(steps)); len(got) != want {
				t.Errorf("%d steps down: %q are left, want %d", steps, got, want)
			}
			up(t, d)
			wantSchema(t, d, want)
		}
		down(t, d, 1)
		down(t, d, 2)
		wantStatus(t, d, migrations.Latest()-3, false)
	})
}

func TestDownRefusesMoreStepsThanThereAre(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Empty(t)
		if err := migrations.Down(t.Context(), d.DSN, 1); err == nil || !strings.Contains(err.Error(), "only 0") {
			t.Errorf("a step down from nothing: %v, want an error that says so", err)
		}
		down(t, d, 0) // all of nothing is nothing to do
		up(t, d)
		for _, steps := range []int{-1, int(migrations.Latest()) + 1} {
			if err := migrations.Down(t.Context(), d.DSN, steps); err == nil {
				t.Errorf("%d steps down: no error", steps)
			}
			wantStatus(t, d, migrations.Latest(), false)
		}
	})
}

func TestStatusOfADatabaseThatWasNeverMigrated(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Empty(t)
		wantStatus(t, d, 0, false)
		if got := objects(t, d); !slices.Equal(got, []string{"schema_migrations"}) {
			t.Errorf("asking for the status has made %q", got)
		}
		wantStatus(t, d, 0, false)
	})
}

func TestASchemaNewerThanTheProgramIsLeftAlone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		want := schema(t, d)
		newer := migrations.Latest() + 1
		dbtest.Exec(t, d.SQL, "UPDATE schema_migrations SET version = ?", newer)
		up(t, d)
		err := migrations.Down(t.Context(), d.DSN, 0)
		if err == nil || !strings.Contains(err.Error(), "use the newer program") {
			t.Errorf("down from a newer schema: %v, want an error that says so", err)
		}
		wantStatus(t, d, newer, false)
		wantSchema(t, d, want)
	})
}

func TestUpsAtOnceDoNotFight(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Empty(t)
		// Both hold the lock for a short time only: they wait 10 seconds for each other.
		fourAtOnce(t, func() error {
			_, err := migrations.Status(t.Context(), d.DSN) // makes the table of versions
			return err
		})
		up(t, d)
		down(t, d, 3)
		fourAtOnce(t, func() error { return migrations.Up(t.Context(), d.DSN) })
		wantStatus(t, d, migrations.Latest(), false)
	})
}

func fourAtOnce(t *testing.T, do func() error) {
	t.Helper()
	const callers = 4
	start := make(chan struct{})
	errs := make(chan error, callers)
	for range callers {
		go func() {
			<-start
			errs <- do()
		}()
	}
	close(start)
	for range callers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestACancelledCallerMigratesNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Empty(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := migrations.Up(ctx, d.DSN); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		if got := objects(t, d); len(got) != 0 {
			t.Errorf("made %q all the same", got)
		}
	})
}

// TestCancellationStopsBetweenTwoMigrations cancels a way down while it waits
// for a table that a transaction still reads.
func TestCancellationStopsBetweenTwoMigrations(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		tx, err := d.SQL.Begin()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback() })
		var n int
		if err := tx.QueryRow("SELECT COUNT(*) FROM zone_txn").Scan(&n); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- migrations.Down(ctx, d.DSN, 0) }()
		dbtest.Eventually(t, "ALTER TABLE zone_txn waits for the reader", func() bool {
			return slices.ContainsFunc(d.Sessions(t), func(s dbtest.Session) bool {
				return strings.HasPrefix(s.Statement, "ALTER TABLE zone_txn") && strings.HasPrefix(s.State, "Waiting for")
			})
		})
		cancel()
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, migrations.ErrDirty) {
			t.Errorf("got %v, want context.Canceled alone", err)
		}
		wantStatus(t, d, 7, false) // what version 8 did to zone_txn is taken back; version 7 is not
		up(t, d)
	})
}

// TestAMigrationsWaitForTablesIsBounded proves the bound on a wait behind
// which every new check would queue, without waiting for it.
func TestAMigrationsWaitForTablesIsBounded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		pool, _, err := migrations.Open(engine.Empty(t).DSN)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		var wait int
		if err := pool.QueryRow("SELECT @@SESSION.lock_wait_timeout").Scan(&wait); err != nil || wait != 10 {
			t.Errorf("lock_wait_timeout is %d s, %v, want 10", wait, err)
		}
	})
}

// TestDataOfTheFirstSchemaSurvivesTheWayUp takes a database that was used at
// version 5, before zones had settings, to the newest schema.
func TestDataOfTheFirstSchemaSurvivesTheWayUp(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		if err := migrations.Down(t.Context(), d.DSN, int(migrations.Latest())-5); err != nil {
			t.Fatal(err)
		}
		dbtest.Exec(t, d.SQL, "INSERT INTO zone_master (id, description, rate, `window`) VALUES (1, 'login per user', 2, 3600)")
		for range 3 {
			dbtest.Exec(t, d.SQL, "CALL check_velocity(1, 'alice')")
		}
		dbtest.Exec(t, d.SQL, `CALL check_velocity_batch('[[{"zone_id":1,"bucket_key":"bob"}]]')`)
		if err := migrations.Up(t.Context(), d.DSN); err != nil {
			t.Fatal(err)
		}
		dbtest.Exec(t, d.SQL, "CALL check_velocity(1, 'alice')")
		dbtest.Exec(t, d.SQL, "CALL check_velocity(1, 'bob')")
		if n := d.Count(t, "SELECT SUM(would_block) * 10 + SUM(counted) FROM zone_txn"); n != 24 {
			t.Errorf("%d (ten times those that would block, and those that count), want 24", n)
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_master WHERE mode = 'enforce' AND key_rule = 'opaque' AND revision = 1"); n != 1 {
			t.Error("the zone has not its defaults")
		}
	})
}
