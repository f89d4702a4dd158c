package migrations_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"velocityd/migrations"
	"velocityd/tools/enginetest"
)

func TestUpReturnsFromEachStepDown(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Empty(t)
		up(t, d)
		want := schema(t, d)
		_, _, last := ways(t, ".")
		for _, steps := range []int{1, 5, last} {
			down(t, d, steps)
			wantStatus(t, d, uint(last-steps), false)
			tables := d.Count(t, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()")
			if steps == last && tables != 1 {
				t.Errorf("down left %q, want schema_migrations and no other table", objects(t, d))
			}
			up(t, d)
			wantStatus(t, d, uint(last), false)
			wantSchema(t, d, want)
		}
	})
}

func TestDownRefusesMoreStepsThanThereAre(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Empty(t)
		if _, err := migrations.Down(t.Context(), migrations.MySQL, d.DSN, 1); err == nil ||
			!strings.Contains(err.Error(), "only 0") {
			t.Errorf("a step down from nothing: %v, want an error that says so", err)
		}
		down(t, d, 0) // all of nothing is nothing to do
		up(t, d)
		_, first, last := ways(t, ".")
		for _, steps := range []int{-1, last - first + 2} {
			if _, err := migrations.Down(t.Context(), migrations.MySQL, d.DSN, steps); err == nil {
				t.Errorf("%d steps down: no error", steps)
			}
			wantStatus(t, d, migrations.Latest(), false)
		}
	})
}

func TestStatusOfADatabaseThatWasNeverMigrated(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Empty(t)
		wantStatus(t, d, 0, false)
		if got := objects(t, d); !slices.Equal(got, []string{"schema_migrations"}) {
			t.Errorf("asking for the status has made %q", got)
		}
		wantStatus(t, d, 0, false)
	})
}

func TestSchemaNewerThanProgramIsLeftAlone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		want := schema(t, d)
		newer := migrations.Latest() + 1
		enginetest.Exec(t, d.SQL, "UPDATE schema_migrations SET version = ?", newer)
		up(t, d)
		_, err := migrations.Down(t.Context(), migrations.MySQL, d.DSN, 0)
		if err == nil || !strings.Contains(err.Error(), "use the newer program") {
			t.Errorf("down from a newer schema: %v, want an error that says so", err)
		}
		wantStatus(t, d, newer, false)
		wantSchema(t, d, want)
	})
}

func TestConcurrentUpsTellTheirOwnWork(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Empty(t)
		const callers = 4
		changes := make(chan migrations.Change, callers)
		for range callers {
			go func() {
				done, err := migrations.Up(t.Context(), migrations.MySQL, d.DSN)
				if err != nil {
					t.Error(err)
				}
				changes <- done
			}()
		}
		all := 0
		for range callers {
			if done := <-changes; done.From == 0 && done.To == migrations.Latest() && len(done.Routines) > 0 {
				all++
			} else if done.From != migrations.Latest() || len(done.Routines) > 0 {
				t.Errorf("one says that it did %+v", done)
			}
		}
		if all != 1 {
			t.Errorf("%d say that they did it, want one", all)
		}
		wantStatus(t, d, migrations.Latest(), false)
	})
}

func TestACancelledCallerMigratesNothing(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Empty(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := migrations.Up(ctx, migrations.MySQL, d.DSN); !errors.Is(err, context.Canceled) {
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
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		tx, err := d.SQL.Begin()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback() })
		var n int
		if err := tx.QueryRow("SELECT COUNT(*) FROM zone_attempt").Scan(&n); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := migrations.Down(ctx, migrations.MySQL, d.DSN, 0)
			ended <- err
		}()
		enginetest.Eventually(t, "DROP TABLE zone_attempt waits for the reader", func() bool {
			return slices.ContainsFunc(d.Sessions(t), func(s enginetest.Session) bool {
				return strings.HasPrefix(s.Statement, "DROP TABLE zone_attempt") && strings.HasPrefix(s.State, "Waiting for")
			})
		})
		cancel()
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, migrations.ErrDirty) {
			t.Errorf("got %v, want context.Canceled alone", err)
		}
		wantStatus(t, d, 3, false) // zone_attempt is gone, and zone_txn is not
		up(t, d)
	})
}

// TestAMigrationsWaitForTablesIsBounded proves the bound on a wait behind
// which every new check would queue, without waiting for it.
func TestAMigrationsWaitForTablesIsBounded(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
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
