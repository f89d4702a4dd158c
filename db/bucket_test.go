package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

func TestPeekTakesNoLockAndCreatesNoRow(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{LockWait: time.Second}, zone(1, 5, time.Hour))
		decide(t, store, check(user("alice")))
		rows := func() string {
			return fmt.Sprint(d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock"), d.Count(t, "SELECT COUNT(*) FROM zone_txn"),
				d.Count(t, "SELECT COUNT(*) FROM zone_audit"))
		}
		want := rows()
		d.Hold(t, user("alice"))
		for key, velocity := range map[string]int{"alice": 1, "never seen": 0, strings.Repeat("🔑", 255): 0} {
			peek, err := store.Peek(t.Context(), user(key))
			if err != nil || peek.Velocity != velocity || peek.Remaining != 5-velocity || len(peek.Txns) != velocity {
				t.Errorf("%.20q: %+v, %v", key, peek, err)
			}
		}
		if got := rows(); got != want {
			t.Errorf("rows of locks, txns and audit: %s, want %s", got, want)
		}
		wantHolderAlone(t, d)
		for key, want := range map[string]error{"": service.ErrInvalid, strings.Repeat("x", 256): service.ErrInvalid} {
			if _, err := store.Peek(t.Context(), user(key)); !errors.Is(err, want) {
				t.Errorf("%.20q: %v, want %v", key, err, want)
			}
		}
	})
}

// A look-up that was cut off can be asked again. No caller must be told that something may have been
// counted.
func TestPeekWithoutAnAnswerInTimeIsBusy(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{}, zone(1, 5, time.Hour))
		if _, err := store.Peek(t.Context(), user("alice")); err != nil {
			t.Fatal(err)
		}
		sqlSession(t, d, "LOCK TABLES zone_txn WRITE")
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := store.Peek(ctx, user("alice")); !errors.Is(err, service.ErrBusy) ||
			errors.Is(err, service.ErrUndecided) {
			t.Errorf("%v, want ErrBusy alone", err)
		}
	})
}

func TestReleaseIsAuditedWithWhoAndWhy(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{}, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Lockout: time.Hour})
		decide(t, store, slices.Repeat(check(user("alice")), 3))
		for _, step := range []struct{ key, who, why string }{
			{"alice", "ann", "called in: \"é\" 🔑"},
			{"alice", "", "again"},
			{"never seen", strings.Repeat("é", 128), strings.Repeat("🔑", 255)},
		} {
			if err := store.Release(t.Context(), user(step.key), step.who, step.why); err != nil {
				t.Errorf("%.10s: %v", step.why, err)
			}
			if n := d.Count(t, "SELECT COUNT(*) FROM zone_audit WHERE subject = 'bucket' AND action = 'release' AND zone_id = "+
				"1 AND COALESCE(principal, '') = ? AND changed_by = SESSION_USER() AND JSON_UNQUOTE(JSON_EXTRACT(state_after, "+
				"'$.bucket_key')) = ? AND JSON_UNQUOTE(JSON_EXTRACT(state_after, '$.reason')) = ?", step.who, step.key,
				step.why); n != 1 {
				t.Errorf("%.10s: %d rows of audit tell so, want 1", step.why, n)
			}
		}
		d.WantCount(t, 0, "SELECT COUNT(*) FROM zone_bucket_lock WHERE bucket_key = 'never seen'")
		if decisions, err := store.CheckAll(t.Context(), service.Call{Checks: check(user("alice"))}); err != nil ||
			decisions[0].Blocked {
			t.Errorf("after the release: %+v, %v", decisions, err)
		}
		for want, release := range map[error]func() error{
			service.ErrNotFound: func() error {
				return store.Release(t.Context(), service.Bucket{ZoneID: 2, Key: "a"}, "ann", "x")
			},
			service.ErrInvalid: func() error { return store.Release(t.Context(), user("a"), "ann", strings.Repeat("x", 256)) },
		} {
			if err := release(); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		}
		d.WantCount(t, 3, "SELECT COUNT(*) FROM zone_audit WHERE subject = 'bucket'")
	})
}

func TestReleaseWithoutALockRowStillUncounts(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{}, zone(1, 1, time.Hour))
		decide(t, store, check(user("alice")))
		enginetest.Exec(t, d.SQL, "DELETE FROM zone_bucket_lock") // as a cleaner does
		release(t, store, user("alice"))
		if txns := d.Txns(t, user("alice")); len(txns) != 1 || txns[0].Counted {
			t.Errorf("got %+v, want one that does not count", txns)
		}
	})
}

func TestReleaseOfHeldBucketIsBusyAndUnaudited(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{LockWait: time.Second, MaxConns: 1}, zone(1, 5, time.Hour))
		d.Hold(t, user("alice"))
		if err := store.Release(t.Context(), user("alice"), "ann", "why"); !errors.Is(err, service.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		d.WantCount(t, 0, "SELECT COUNT(*) FROM zone_audit WHERE subject = 'bucket'")
		wantHolderAlone(t, d)
	})
}

func TestProceduresAnswerInTheColumnsOfTheDocs(t *testing.T) {
	t.Parallel()
	const checked = "blocked txn_id zone_id bucket_key rate window remaining retry_after checked_at would_block " +
		"velocity reason override_id reset_after"
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 5, time.Hour))
		enginetest.Exec(t, d.SQL, "CALL check_velocity(1, 'alice')")
		for query, want := range map[string]string{
			"CALL peek_velocity(1, 'alice')": "zone_id bucket_key mode rate window velocity remaining retry_after " +
				"locked_until override_id override_action checked_at reason reset_after",
			"CALL check_velocity(1, 'alice')": checked, "CALL check_velocity_by_rule(1, 'alice', 'opaque', TRUE)": checked,
			`CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"alice"}]', NULL)`:                   checked,
			"CALL report_outcome(1, 'success')":                                                           "txn_id outcome",
			`CALL report_outcomes('[{"txn_id":1,"outcome":"success"},{"txn_id":9,"outcome":"failure"}]')`: "report_no status txn_id outcome",
			"CALL release_bucket(1, 'alice', NULL, 'asked')":                                              "zone_id bucket_key",
		} {
			rows, err := d.SQL.QueryContext(t.Context(), query)
			if err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			defer rows.Close()
			columns, err := rows.Columns()
			if got := strings.Join(columns, " "); err != nil || got != want {
				t.Errorf("%s: answers %s, %v, want %s", query, got, err, want)
			}
			n := 0
			for rows.Next() {
				n++
			}
			if want := 1 + strings.Count(query, "},{"); n != want || rows.NextResultSet() || rows.Err() != nil {
				t.Errorf("%s: %d rows, %v, want %d in one result set", query, n, rows.Err(), want)
			}
		}
	})
}
