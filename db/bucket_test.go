package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
)

func TestPeekTakesNoLockAndCreatesNoRow(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{LockWait: time.Second}, zone(1, 5, time.Hour))
		if _, err := store.CheckAll(t.Context(), service.Call{Checks: check(user("alice"))}); err != nil {
			t.Fatal(err)
		}
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
		if open, _ := d.Transactions(t); open != 1 {
			t.Errorf("%d transactions open, want the holder's alone", open)
		}
		for key, want := range map[string]error{"": service.ErrInvalid, strings.Repeat("x", 256): service.ErrInvalid} {
			if _, err := store.Peek(t.Context(), user(key)); !errors.Is(err, want) {
				t.Errorf("%.20q: %v, want %v", key, err, want)
			}
		}
	})
}

// A look-up that was cut off can be asked again. Nobody must be told that something may have been
// counted.
func TestPeekWithoutAnAnswerInTimeIsBusyAndNotUndecided(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{}, zone(1, 5, time.Hour))
		if _, err := store.Peek(t.Context(), user("alice")); err != nil {
			t.Fatal(err)
		}
		sqlSession(t, d, "LOCK TABLES zone_txn WRITE")
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := store.Peek(ctx, user("alice")); !errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrUndecided) {
			t.Errorf("%v, want ErrBusy alone", err)
		}
	})
}

func TestReleaseIsAuditedWithWhoAndWhy(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{}, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Lockout: time.Hour})
		if _, err := store.CheckAll(t.Context(), service.Call{Checks: slices.Repeat(check(user("alice")), 3)}); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct{ key, who, why string }{
			{"alice", "ann", "called in: \"é\" 🔑"},
			{"alice", "", "again"},
			{"never seen", strings.Repeat("é", 128), strings.Repeat("🔑", 255)},
		} {
			if err := store.Release(t.Context(), user(step.key), step.who, step.why); err != nil {
				t.Errorf("%.10s: %v", step.why, err)
			}
			if n := d.Count(t, "SELECT COUNT(*) FROM zone_audit WHERE subject = 'bucket' AND action = 'release' AND zone_id = 1 "+
				"AND COALESCE(principal, '') = ? AND changed_by = SESSION_USER() AND JSON_UNQUOTE(JSON_EXTRACT(state_after, '$.bucket_key')) = ? "+
				"AND JSON_UNQUOTE(JSON_EXTRACT(state_after, '$.reason')) = ?", step.who, step.key, step.why); n != 1 {
				t.Errorf("%.10s: %d rows of audit tell so, want 1", step.why, n)
			}
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock WHERE bucket_key = 'never seen'"); n != 0 {
			t.Error("a key that was never seen got a lock row")
		}
		if decisions, err := store.CheckAll(t.Context(), service.Call{Checks: check(user("alice"))}); err != nil || decisions[0].Blocked {
			t.Errorf("after the release: %+v, %v", decisions, err)
		}
		for want, release := range map[error]func() error{
			service.ErrNotFound: func() error { return store.Release(t.Context(), service.Bucket{ZoneID: 2, Key: "a"}, "ann", "x") },
			service.ErrInvalid:  func() error { return store.Release(t.Context(), user("a"), "ann", strings.Repeat("x", 256)) },
		} {
			if err := release(); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_audit WHERE subject = 'bucket'"); n != 3 {
			t.Errorf("%d releases are audited, want 3", n)
		}
	})
}

func TestReleaseWithoutALockRowStillUncounts(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{}, zone(1, 1, time.Hour))
		if _, err := store.CheckAll(t.Context(), service.Call{Checks: check(user("alice"))}); err != nil {
			t.Fatal(err)
		}
		dbtest.Exec(t, d.SQL, "DELETE FROM zone_bucket_lock") // as a cleaner does
		if err := store.Release(t.Context(), user("alice"), "ann", "why"); err != nil {
			t.Fatal(err)
		}
		if txns := d.Txns(t, user("alice")); len(txns) != 1 || txns[0].Counted {
			t.Errorf("got %+v, want one that does not count", txns)
		}
	})
}

func TestAHeldBucketIsBusyForItsReleaseAndNothingIsAudited(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{LockWait: time.Second, MaxConns: 1}, zone(1, 5, time.Hour))
		d.Hold(t, user("alice"))
		if err := store.Release(t.Context(), user("alice"), "ann", "why"); !errors.Is(err, service.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_audit WHERE subject = 'bucket'"); n != 0 {
			t.Errorf("%d releases are audited", n)
		}
		if open, _ := d.Transactions(t); open != 1 {
			t.Errorf("%d transactions open, want the holder's alone", open)
		}
	})
}

// TestErrorsOfTheProceduresHaveNumbers is for callers by SQL, in strict sessions
// and in careless ones.
func TestErrorsOfTheProceduresHaveNumbers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d, store := stand(t, engine, session.Options{}, zone(1, 1, time.Hour))
		decisions, err := store.CheckAll(t.Context(), service.Call{Checks: append(check(user("alice")), attempt("blocked", user("alice"))...)})
		if err != nil {
			t.Fatal(err)
		}
		allowed, blocked := decisions[0].TxnID(), decisions[1].TxnID()
		for _, mode := range []string{"STRICT_ALL_TABLES", ""} {
			conn := sqlSession(t, d, "SET SESSION sql_mode = '"+mode+"'")
			dbtest.Exec(t, conn, fmt.Sprintf("CALL report_outcome(%d, 'failure')", allowed))
			for statement, number := range map[string]uint16{
				"CALL peek_velocity(2, 'a')": session.NumberUnknown, "CALL peek_velocity(NULL, 'a')": session.NumberUnknown,
				"CALL peek_velocity(1, '')": session.NumberBadArgument, "CALL peek_velocity(1, NULL)": session.NumberBadArgument,
				"CALL peek_velocity(1, '" + long + "')":                                                                session.NumberBadArgument,
				"CALL check_velocity(2, 'a')":                                                                          session.NumberUnknown,
				"CALL check_velocity(1, '" + long + "')":                                                               session.NumberBadArgument,
				"CALL check_velocity_by_rule(2, 'a', NULL, TRUE)":                                                      session.NumberUnknown,
				"CALL check_velocity_by_rule(2, 'a', 'opaque', TRUE)":                                                  session.NumberUnknown,
				"CALL check_velocity_by_rule(1, 'never', 'ip/32/64', TRUE)":                                            session.NumberStaleKeyRule,
				"CALL check_velocity_by_rule(1, 'alice', 'username', TRUE)":                                            session.NumberStaleKeyRule,
				"CALL check_velocity_by_rule(1, NULL, 'opaque', TRUE)":                                                 session.NumberBadArgument,
				"CALL release_bucket(2, 'a', 'who', 'why')":                                                            session.NumberUnknown,
				"CALL release_bucket(NULL, 'a', 'who', 'why')":                                                         session.NumberUnknown,
				"CALL release_bucket(1, 'a', 'who', '')":                                                               session.NumberBadArgument,
				"CALL release_bucket(1, 'a', 'who', NULL)":                                                             session.NumberBadArgument,
				"CALL release_bucket(1, '', 'who', 'why')":                                                             session.NumberBadArgument,
				"CALL release_bucket(1, '" + long + "', 'w', 'w')":                                                     session.NumberBadArgument,
				"CALL release_bucket(1, 'a', '" + long[:129] + "', 'w')":                                               session.NumberBadArgument,
				"CALL release_bucket(1, 'a', 'w', '" + long + "')":                                                     session.NumberBadArgument,
				"CALL report_outcome(99999, 'success')":                                                                session.NumberUnknown,
				"CALL report_outcome(0, 'success')":                                                                    session.NumberUnknown,
				"CALL report_outcome(NULL, 'success')":                                                                 session.NumberBadArgument,
				"CALL report_outcome(1, 'won')":                                                                        session.NumberBadArgument,
				"CALL report_outcome(1, NULL)":                                                                         session.NumberBadArgument,
				"CALL report_outcome(1, '')":                                                                           session.NumberBadArgument,
				"CALL report_attempt('never', 'success')":                                                              session.NumberUnknown,
				"CALL report_attempt(NULL, 'success')":                                                                 session.NumberBadArgument,
				"CALL report_attempt('', 'success')":                                                                   session.NumberBadArgument,
				"CALL report_attempt('é', 'success')":                                                                  session.NumberBadArgument,
				"CALL report_attempt('" + long[:65] + "', 'success')":                                                  session.NumberBadArgument,
				"CALL report_attempt('never', 'won')":                                                                  session.NumberBadArgument,
				"CALL report_attempt('blocked', 'failure')":                                                            session.NumberContradiction,
				`CALL report_outcomes('[{"txn_id":1,"attempt_id":"blocked","outcome":"success"}]')`:                    session.NumberBadArgument,
				"CALL report_outcomes('{}')":                                                                           session.NumberBadArgument,
				"CALL report_outcomes('null')":                                                                         session.NumberBadArgument,
				"CALL report_outcomes(NULL)":                                                                           session.NumberBadArgument,
				"CALL report_outcomes('[{}]')":                                                                         session.NumberBadArgument,
				"CALL report_outcomes('[5]')":                                                                          session.NumberBadArgument,
				`CALL report_outcomes('[{"txn_id":1}]')`:                                                               session.NumberBadArgument,
				`CALL report_outcomes('[{"outcome":"success"}]')`:                                                      session.NumberBadArgument,
				fmt.Sprintf("CALL report_outcome(%d, 'success')", allowed):                                             session.NumberContradiction,
				fmt.Sprintf("CALL report_outcome(%d, 'failure')", blocked):                                             session.NumberContradiction,
				`CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"new","key_rule":"username"}]', NULL)`:        session.NumberStaleKeyRule,
				`CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"b"},{"zone_id":2,"bucket_key":"b"}]', NULL)`: session.NumberUnknown,
			} {
				if _, err := conn.ExecContext(t.Context(), statement); !session.IsNumber(err, number) {
					t.Errorf("sql_mode %q: %.80s: %v, want error %d", mode, statement, err, number)
				}
				d.AwaitNone(t, fmt.Sprintf("%.80s", statement))
			}
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock WHERE bucket_key <> 'alice'"); n != 0 {
			t.Errorf("%d lock rows were made by what was refused", n)
		}
		if n := len(d.Txns(t, user("alice"))); n != 2 {
			t.Errorf("%d txns, want the 2 that were decided", n)
		}
	})
}

func TestPeekBySQLAnswersAsDocumented(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 5, time.Hour))
		dbtest.Exec(t, d.SQL, "CALL check_velocity(1, 'alice')")
		for query, want := range map[string]string{
			"CALL peek_velocity(1, 'alice')": "zone_id bucket_key mode rate window velocity remaining retry_after " +
				"locked_until override_id override_action checked_at reason reset_after",
			"CALL check_velocity_by_rule(1, 'alice', 'opaque', TRUE)": "blocked txn_id zone_id bucket_key rate window remaining retry_after " +
				"checked_at would_block velocity reason override_id reset_after",
			"CALL report_outcome(1, 'success')": "txn_id outcome",
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
