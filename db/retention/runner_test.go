package retention_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/retention"
	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/tools/enginetest"
)

// does is a task that returns a result and an error.
func does(name string, result retention.Result, err error) retention.Task {
	return task(name, func(context.Context, *sqlx.Conn, string) (retention.Result, error) { return result, err })
}

// task is one that is due once an hour.
func task(name string, run func(context.Context, *sqlx.Conn, string) (retention.Result, error)) retention.Task {
	return retention.Task{Name: name, Every: time.Hour, Run: run}
}

// runner returns a runner of tasks, which has a separate connection.
func runner(t *testing.T, dsn string, tasks ...retention.Task) *retention.Runner {
	t.Helper()
	return runnerOn(t, dsn, "", tasks...)
}

// runnerOn is runner for a database that is believed to be on an engine.
func runnerOn(t *testing.T, dsn string, of engine.Engine, tasks ...retention.Task) *retention.Runner {
	t.Helper()
	o := session.Options{DSN: dsn, LockWait: time.Second, Engine: of}
	database := session.NewDatabase(of)
	one, err := session.Open(o, database, session.ForOthers, 1)
	if err != nil {
		t.Fatal(err)
	}
	last, err := session.Open(o, database, session.ForOthers, 1)
	if err != nil {
		t.Fatal(err)
	}
	killer := session.NewKiller(last)
	t.Cleanup(func() {
		killer.Close()
		_, _ = one.Close(), last.Close()
	})
	return retention.NewRunner(session.NewPool(sqlx.NewDb(one, "mysql"), killer, 1), retention.ForRetention, tasks...)
}

// turn returns the names of the tasks that a turn ran.
func turn(t *testing.T, r *retention.Runner) (names []string) {
	t.Helper()
	runs, err := r.Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		names = append(names, run.Task)
	}
	return names
}

func TestFailedTaskIsNotedAndStopsNoOther(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, e *enginetest.Engine) {
		d := e.Database(t)
		fault := errors.New(strings.Repeat("ä", 600))
		r := runner(t, d.DSN, does("first", retention.Result{Removed: 3, Position: "lost"}, fault),
			does("second", retention.Result{Removed: 7, Position: "a"}, nil))
		if names := turn(t, r); !slices.Equal(names, []string{"first", "second"}) {
			t.Fatalf("ran %v", names)
		}
		states, err := r.States(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		shown, err := r.Retention(t.Context())
		if err != nil || !shown.OldestTxn.IsZero() || len(shown.Tasks) != 2 || shown.Tasks[1] != states[1].RetentionTask {
			t.Errorf("the state is shown as %+v, %v", shown, err)
		}
		first, second := states[0], states[1]
		if first.Error == "" || len([]rune(first.Error)) > 512 || first.Removed != 3 || !first.SucceededAt.IsZero() ||
			first.EndedAt.IsZero() ||
			first.Position != "" {
			t.Errorf("first: %+v", first)
		}
		if second.Error != "" || second.Removed != 7 || second.SucceededAt != second.EndedAt || second.Position != "a" {
			t.Errorf("second: %+v", second)
		}
	})
}

func TestTaskRunsAgainWhenDueOrBacklogged(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, e *enginetest.Engine) {
		d := e.Database(t)
		r := runner(t, d.DSN, does("done", retention.Result{}, nil), does("not done", retention.Result{Backlog: true}, nil))
		turn(t, r)
		if names := turn(t, r); !slices.Equal(names, []string{"not done"}) {
			t.Errorf("ran %v at once again", names)
		}
		for why, change := range map[string]string{
			"an hour later":          "began_at - INTERVAL 1 HOUR",
			"the clock was set back": "began_at + INTERVAL 3 HOUR",
		} {
			enginetest.Exec(t, d.SQL, "UPDATE retention_task SET began_at = "+change)
			if names := turn(t, r); !slices.Equal(names, []string{"done", "not done"}) {
				t.Errorf("%s: ran %v", why, names)
			}
		}
	})
}

func TestOneRunnerAmongAllIsAtWork(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, e *enginetest.Engine) {
		d := e.Database(t)
		begun, goOn := make(chan struct{}), make(chan struct{})
		held := runner(t, d.DSN, task("held", func(context.Context, *sqlx.Conn, string) (retention.Result, error) {
			close(begun)
			<-goOn
			return retention.Result{}, nil
		}))
		other := runner(t, d.DSN, does("other", retention.Result{}, nil))
		done := make(chan []string)
		go func() { done <- turn(t, held) }()
		<-begun
		if names := turn(t, other); names != nil {
			t.Errorf("ran %v beside another runner", names)
		}
		close(goOn)
		if names := <-done; len(names) != 1 {
			t.Errorf("the first ran %v", names)
		}
		if names := turn(t, other); len(names) != 1 {
			t.Errorf("the other ran %v afterwards", names)
		}
	})
}

func TestRunnerLosingItsSessionLosesLockAndContinues(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, e *enginetest.Engine) {
		d := e.Database(t)
		killed := task("killed", func(ctx context.Context, on *sqlx.Conn, _ string) (retention.Result, error) {
			var id int64
			if err := on.GetContext(ctx, &id, "SELECT CONNECTION_ID()"); err != nil {
				return retention.Result{}, err
			}
			enginetest.Exec(t, d.SQL, "KILL ?", id)
			_, err := on.ExecContext(ctx, "DO 1")
			return retention.Result{Removed: 5}, err
		})
		r := runner(t, d.DSN, killed, does("next", retention.Result{}, nil))
		if names := turn(t, r); !slices.Equal(names, []string{"killed", "next"}) {
			t.Fatalf("ran %v", names)
		}
		states, err := r.States(t.Context())
		if err != nil || states[0].Error == "" || states[0].Removed != 5 || states[0].EndedAt.IsZero() {
			t.Errorf("%+v, %v", states[0], err)
		}
	})
}

func TestATurnEndsAtOnceWithItsContext(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, e *enginetest.Engine) {
		d := e.Database(t)
		ctx, stop := context.WithCancel(t.Context())
		r := runner(t, d.DSN, task("slow", func(ctx context.Context, on *sqlx.Conn, _ string) (retention.Result, error) {
			stop()
			_, err := on.ExecContext(ctx, "DO SLEEP(600)")
			return retention.Result{}, err
		}), does("next", retention.Result{}, nil))
		if runs, err := r.Turn(ctx); !errors.Is(err, context.Canceled) || len(runs) > 1 {
			t.Errorf("%v, %v", runs, err)
		}
		other := runner(t, d.DSN, does("next", retention.Result{}, nil))
		enginetest.Eventually(t, "the lock to be free", func() bool { return len(turn(t, other)) == 1 })
	})
}

func TestMarksKeepHighestIDAndFewOldOnes(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		marks := func() (n, highest int64) {
			t.Helper()
			if err := d.SQL.QueryRow("SELECT COUNT(*), COALESCE(MAX(txn_id), 0) FROM zone_txn_mark").Scan(
				&n, &highest); err != nil {
				t.Fatal(err)
			}
			return n, highest
		}
		r := runner(t, d.DSN, retention.Marks())
		again := func() {
			t.Helper()
			enginetest.Exec(t, d.SQL, "UPDATE retention_task SET began_at = began_at - INTERVAL 1 HOUR")
			if runs, err := r.Turn(t.Context()); err != nil || len(runs) != 1 || runs[0].Err != nil {
				t.Fatalf("%+v, %v", runs, err)
			}
		}
		if again(); countOf(marks()) != 0 {
			t.Error("an empty history has a mark")
		}
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, "+
			"counted) VALUES (7000, UTC_TIMESTAMP(6), 9, 'x', FALSE, FALSE, FALSE)")
		for minute := range 180 {
			enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn_mark (txn_id, marked_at) VALUES (?, DATE(UTC_TIMESTAMP()) - "+
				"INTERVAL 3 DAY + INTERVAL ? MINUTE), (?, UTC_TIMESTAMP(6) - INTERVAL 46 HOUR + INTERVAL ? MINUTE)", minute, minute,
				1000+minute, minute)
		}
		for range 2 { // a second mark of an id leaves the first one
			again()
			if n, highest := marks(); n != 3+180+1 || highest != 7000 {
				t.Errorf("%d marks up to id %d, want 184 up to 7000", n, highest)
			}
		}
	})
}

// countOf returns the first of two numbers.
func countOf(n, _ int64) int64 { return n }

func TestMain(m *testing.M) { enginetest.Main(m) }
