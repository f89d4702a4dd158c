package retention_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/retention"
	"velocityd/internal/engine"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// everywhere runs a test on databases with procedures, and on one with the portable tables.
func everywhere(t *testing.T, test func(t *testing.T, d *enginetest.Database, of engine.Engine)) {
	t.Helper()
	enginetest.Each(t, func(t *testing.T, e *enginetest.Engine) { test(t, e.Database(t), "") })
	t.Run("portable", func(t *testing.T) {
		t.Parallel()
		test(t, enginetest.Portable(t), engine.TiDB)
	})
}

func texts(t *testing.T, d *enginetest.Database, query string) (list []string) {
	t.Helper()
	rows, err := enginetest.Texts(d.SQL, query)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		list = append(list, strings.Join(row, " "))
	}
	return list
}

func TestLockRowsLeaveOnceTheySayNothing(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, d *enginetest.Database, of engine.Engine) {
		d.LeaveUnaudited()
		d.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute, Lockout: time.Minute, LockoutDecay: 2 * day})
		d.SetZone(t, service.Zone{ID: 2, Rate: 5, Window: 10 * day})
		enginetest.Exec(t, d.SQL, `INSERT INTO zone_bucket_lock (zone_id, bucket_key, locked_until) VALUES
			(1, 'idle: ''/', NULL), (1, 'asked', NULL), (1, 'blocked', NULL), (1, 'asked long ago', NULL),
			(1, 'locked', UTC_TIMESTAMP() + INTERVAL 1 HOUR), (1, 'grown', UTC_TIMESTAMP() - INTERVAL 1 DAY),
			(1, 'decayed', UTC_TIMESTAMP() - INTERVAL 3 DAY),
			(2, 'in its window', NULL), (2, 'idle', NULL), (7, 'of no zone', NULL)`)
		enginetest.Exec(
			t, d.SQL, `INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) VALUES
			(UTC_TIMESTAMP() - INTERVAL 1 HOUR, 1, 'asked', 0, 0, 1), (UTC_TIMESTAMP() - INTERVAL 1 HOUR, 1, 'blocked', 1, 1, 0),
			(UTC_TIMESTAMP() - INTERVAL 2 DAY, 1, 'asked long ago', 0, 0, 1), (UTC_TIMESTAMP() - INTERVAL 9 DAY, 2, 'in its window', 0, 0, 1)`)
		enginetest.Exec(t, d.SQL, `UPDATE zone_bucket_lock
			SET imprint_key = REPEAT('k', 16), imprint_until = UTC_TIMESTAMP() + INTERVAL IF(bucket_key = 'asked', -1, 1) HOUR
			WHERE bucket_key IN ('asked', 'blocked')`)
		finish(t, d, of)
		kept := texts(
			t, d, "SELECT bucket_key FROM zone_bucket_lock WHERE imprint_key IS NOT NULL OR imprint_until IS NOT NULL")
		if !slices.Equal(kept, []string{"blocked"}) {
			t.Errorf("keys of imprints are kept of %q, want those that still count", kept)
		}
		got := texts(t, d, "SELECT bucket_key FROM zone_bucket_lock ORDER BY zone_id, bucket_key")
		if want := []string{"asked", "blocked", "grown", "locked", "in its window"}; !slices.Equal(got, want) {
			t.Errorf("left are %q, want %q", got, want)
		}
	})
}

// TestRemovedLockRowsLetNoCheckPassTwice deletes idle rows while several callers ask for each of their buckets at
// the same time.
func TestRemovedLockRowsLetNoCheckPassTwice(t *testing.T) {
	t.Parallel()
	const keys, callers = 400, 4
	enginetest.Each(t, func(t *testing.T, e *enginetest.Engine) {
		d := e.Database(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
		var values []string
		for i := range keys {
			values = append(values, fmt.Sprintf("(1, 'k%03d')", i))
		}
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES "+strings.Join(values, ","))
		asked := make(chan struct{})
		var asking, cleaning sync.WaitGroup
		for range callers {
			asking.Go(func() {
				for i := range keys {
					if _, err := d.SQL.Exec("CALL check_velocity(1, ?)", fmt.Sprintf("k%03d", i)); err != nil {
						t.Errorf("check: %v", err)
					}
				}
			})
		}
		cleaning.Go(func() {
			for {
				if _, err := d.SQL.Exec("CALL retain_task('idle_buckets', '1:')"); err != nil {
					t.Errorf("clean: %v", err)
				}
				select {
				case <-asked:
					return
				default:
				}
			}
		})
		asking.Wait()
		close(asked)
		cleaning.Wait()
		d.WantCount(t, keys, "SELECT COUNT(*) FROM zone_txn WHERE NOT blocked")
		d.WantCount(t, keys*callers, "SELECT COUNT(*) FROM zone_txn")
	})
}

func TestHeldLockRowIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, e *enginetest.Engine) {
		d := e.Database(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (1, 'a'), (1, 'b'), (1, 'c')")
		release := d.Hold(t, service.Bucket{ZoneID: 1, Key: "b"})
		finish(t, d, "")
		if got := texts(t, d, "SELECT bucket_key FROM zone_bucket_lock"); !slices.Equal(got, []string{"b"}) {
			t.Errorf("left are %q", got)
		}
		release()
	})
}

func TestExpiredAttemptsOverridesAuditsAndEventsLeave(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, e *enginetest.Engine) {
		d := e.Database(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour}, service.Zone{ID: 2, Rate: 1, Window: time.Hour})
		d.LeaveUnaudited()
		for name, ago := range map[string]string{"old": "2 HOUR", "fresh": "1 MINUTE"} {
			enginetest.Exec(
				t, d.SQL,
				"INSERT INTO zone_attempt (attempt_id, created_at, expires_at, answer) VALUES (?, UTC_TIMESTAMP(), "+
					"UTC_TIMESTAMP() - INTERVAL "+
					ago+", '[]')", name)
		}
		enginetest.Exec(t, d.SQL, `INSERT INTO zone_override (zone_id, bucket_key, action, expires_at) VALUES
			(1, 'old', 'deny', UTC_TIMESTAMP() - INTERVAL 2 DAY), (1, 'fresh', 'deny', UTC_TIMESTAMP() - INTERVAL 1 HOUR), (1, 'for ever', 'deny', NULL)`)
		enginetest.Exec(t, d.SQL, "UPDATE zone_master SET rate = 2 WHERE id = 1")
		enginetest.Exec(t, d.SQL, "UPDATE zone_audit SET changed_at = changed_at - INTERVAL 50 DAY")
		enginetest.Exec(
			t, d.SQL, "UPDATE zone_event SET created_at = created_at - INTERVAL 50 DAY WHERE type <> 'zone.updated'")
		enginetest.Exec(t, d.SQL, "UPDATE retention_policy SET audit_days = 40, event_days = 40")
		finish(t, d, "")
		if got := texts(t, d, "SELECT type FROM zone_event ORDER BY id"); !slices.Equal(
			got, []string{"zone.updated", "override.deleted"}) {
			t.Errorf("left events are %q, want the young one and that of the override that leaves", got)
		}
		if got := texts(t, d, "SELECT attempt_id FROM zone_attempt"); !slices.Equal(got, []string{"fresh"}) {
			t.Errorf("left attempts are %q", got)
		}
		if got := texts(t, d, "SELECT bucket_key FROM zone_override ORDER BY id"); !slices.Equal(
			got, []string{"fresh", "for ever"}) {
			t.Errorf("left overrides are %q", got)
		}
		// The newest change of each zone and override is left, however old.
		got := texts(t, d, "SELECT subject, action, zone_id, COALESCE(principal, '') FROM zone_audit ORDER BY id")
		want := []string{
			"zone insert 2 ", "override insert 1 ", "override insert 1 ", "zone update 1 ",
			"override delete 1 velocityd retention",
		}
		if !slices.Equal(got, want) {
			t.Errorf("left changes are %q, want %q", got, want)
		}
	})
}

func TestPartitionsAheadHaveTheWidthOfThePolicy(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, e *enginetest.Engine) {
		d := e.Database(t)
		at := func(keep string) []string {
			enginetest.Exec(t, d.SQL,
				"ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) (PARTITION later VALUES LESS THAN (MAXVALUE))")
			enginetest.Exec(t, d.SQL, "UPDATE retention_policy SET minimum_days = 1, keep_days = "+keep)
			for range 2 { // the second finds nothing to do
				enginetest.Exec(t, d.SQL, "CALL retain_task('partitions_ahead', '')")
			}
			return texts(t, d, "SELECT partition_name, REPLACE(SUBSTRING(partition_description, 1, 11), '''', '') FROM "+
				"information_schema.partitions WHERE table_schema = DATABASE() AND table_name = 'zone_txn' ORDER BY "+
				"partition_ordinal_position")
		}
		now := time.Now().UTC()
		today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
		next := map[string]func(time.Time) time.Time{
			"60":   func(t time.Time) time.Time { return t.AddDate(0, 0, 1) },
			"400":  func(t time.Time) time.Time { return t.AddDate(0, 0, 7-(int(t.Weekday())+6)%7) },
			"1800": func(t time.Time) time.Time { return time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC) },
			"1801": func(t time.Time) time.Time { return time.Date(t.Year()+1, 1, 1, 0, 0, 0, 0, time.UTC) },
			"0":    func(t time.Time) time.Time { return time.Date(t.Year()+1, 1, 1, 0, 0, 0, 0, time.UTC) },
		}
		for keep, ahead := range map[string]int{"60": 3, "400": 7, "1800": 31, "1801": 366, "0": 366} {
			var want []string
			for begin := today; !begin.After(today.AddDate(0, 0, ahead)); begin = next[keep](begin) {
				want = append(want, begin.Format("p20060102 ")+next[keep](begin).Format(time.DateOnly))
			}
			if got := at(keep); !slices.Equal(got, append(want, "later MAXVALUE")) {
				t.Errorf("%s days: %q, want %q", keep, got, want)
			}
		}
	})
}

// TestPartitionChangeGivesUpAfterOneSecond has a session read the history in an open transaction, behind which the
// change waits, and checks behind it.
func TestPartitionChangeGivesUpAfterOneSecond(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, e *enginetest.Engine) {
		d := e.Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
		d.LeaveUnaudited()
		enginetest.Exec(t, d.SQL, "ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) (PARTITION p20200101 "+
			"VALUES LESS THAN ('2020-01-02'), PARTITION later VALUES LESS THAN (MAXVALUE))")
		enginetest.Exec(
			t, d.SQL,
			"INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) VALUES ('2020-01-01', 1, "+
				"'old', 0, 0, 1)")
		reader, err := d.SQL.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Rollback()
		var n int
		if err := reader.QueryRow("SELECT COUNT(*) FROM zone_txn").Scan(&n); err != nil {
			t.Fatal(err)
		}
		r := runner(t, d.DSN, retention.Tasks(noOverrides)...)
		errs := map[string]error{}
		if err := r.Finish(t.Context(), func(run retention.Run) { errs[run.Task] = run.Err }); err != nil {
			t.Fatal(err)
		}
		if errs["partitions_ahead"] == nil || errs["old_partitions"] == nil || errs["expired_attempts"] != nil {
			t.Errorf("%v", errs)
		}
		enginetest.Exec(t, d.SQL, "CALL check_velocity(1, 'alice')")
		var patience string
		conn := connOf(t, d.SQL)
		enginetest.Exec(t, conn, "SET SESSION lock_wait_timeout = 77")
		if _, err := conn.ExecContext(t.Context(), "CALL retain_task('old_partitions', '')"); err == nil {
			t.Error("the change went by the reader")
		}
		if err := conn.QueryRowContext(t.Context(), "SELECT @@SESSION.lock_wait_timeout").Scan(&patience); err != nil ||
			patience != "77" {
			t.Errorf("the session's own patience is %s afterwards, %v", patience, err)
		}
		if err := reader.Rollback(); err != nil {
			t.Fatal(err)
		}
		finish(t, d, "")
		d.WantCount(t, 0, "SELECT COUNT(*) FROM zone_txn WHERE bucket_key = 'old'")
	})
}

func connOf(t *testing.T, on *sql.DB) *sql.Conn {
	t.Helper()
	conn, err := on.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestCrowdedLastPartitionIsLeftToPerson(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, e *enginetest.Engine) {
		d := e.Database(t)
		d.LeaveUnaudited()
		enginetest.Exec(t, d.SQL,
			"ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) (PARTITION later VALUES LESS THAN (MAXVALUE))")
		row := "(UTC_TIMESTAMP(), 1, 'k', 0, 0, 1)"
		for _, n := range []int{10_000, 1} {
			enginetest.Exec(
				t, d.SQL, "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) VALUES "+
					strings.TrimSuffix(strings.Repeat(row+",", n), ","))
		}
		if _, err := d.SQL.Exec("CALL retain_task('partitions_ahead', '')"); err == nil ||
			!strings.Contains(err.Error(), "has many rows") {
			t.Errorf("split it: %v", err)
		}
		enginetest.Exec(t, d.SQL, "DELETE FROM zone_txn LIMIT 1")
		enginetest.Exec(t, d.SQL, "CALL retain_task('partitions_ahead', '')")
		d.WantCount(t, 10_000, "SELECT COUNT(*) FROM zone_txn")
	})
}

func TestRetainRefusesBesideRunnerAndInsideTransaction(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, e *enginetest.Engine) {
		d := e.Database(t)
		tx, err := d.SQL.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("CALL retain()"); err == nil || !strings.Contains(err.Error(), "1568") {
			t.Errorf("in a transaction: %v", err)
		}
		_ = tx.Rollback()
		r := runner(t, d.DSN, task("held", func(context.Context, *sqlx.Conn, string) (retention.Result, error) {
			_, err := d.SQL.Exec("CALL retain()")
			return retention.Result{}, err
		}))
		runs, err := r.Turn(t.Context())
		if err != nil || len(runs) != 1 || runs[0].Err == nil || !strings.Contains(runs[0].Err.Error(), "another runner") {
			t.Errorf("%+v, %v", runs, err)
		}
	})
}
