package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
)

// These tests use the procedures as an SQL client does: any session, any
// language, no service in between.

func TestTextbookUseWorksFromAnySQLClient(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		dbtest.Exec(t, d.SQL, "INSERT INTO zone_master (id, description, rate, `window`) VALUES (1, 'login per user', 5, 60)")
		rows, err := d.SQL.Query("CALL check_velocity(1, '1_42')")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"blocked", "txn_id", "zone_id", "bucket_key", "rate", "window", "remaining", "retry_after", "checked_at",
			"would_block", "velocity", "reason", "override_id", "reset_after",
		}
		if !slices.Equal(columns, want) {
			t.Errorf("columns %v, want %v", columns, want)
		}
		got := make([]sql.RawBytes, len(columns))
		places := make([]any, len(columns))
		for i := range got {
			places[i] = &got[i]
		}
		if !rows.Next() {
			t.Fatal("no row")
		}
		if err := rows.Scan(places...); err != nil {
			t.Fatal(err)
		}
		if line := fmt.Sprintf("%s", got[:8]); line != "[0 1 1 1_42 5 60 4 0]" {
			t.Errorf("answered %s", line)
		}
		if rows.Next() || rows.NextResultSet() || rows.Err() != nil {
			t.Error("more than one row or result set", rows.Err())
		}
	})
}

func TestWindowEndsToTheMicrosecond(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 1, time.Minute))
		d.FollowSessionClocks(t)
		conn := sqlSession(t, d)
		const start = 1_800_000_000
		for i, step := range []struct {
			at      string // seconds after start
			blocked bool
			retry   int
		}{
			{"0.500000", false, 0},
			{"0.500000", true, 60},
			{"1.499999", true, 60},
			{"1.500000", true, 59},
			{"60.499999", true, 1},
			{"60.500000", false, 0},
			{"120.499999", true, 1},
			// A clock that steps back finds the bucket full until it has caught up.
			{"60.000000", true, 61},
			{"0.000000", true, 121},
			{"120.500000", false, 0},
		} {
			dbtest.Exec(t, conn, fmt.Sprintf("SET SESSION timestamp = %d + %s", start, step.at))
			r, err := call(conn, user("alice"))
			if err != nil || r.blocked != step.blocked || r.retry != step.retry {
				t.Errorf("step %d at %s: got %+v, %v, want %+v", i, step.at, r, err, step)
			}
		}
	})
}

func TestClockThatStepsBackNeverAdmitsMore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 3, time.Minute))
		d.FollowSessionClocks(t)
		conn := sqlSession(t, d)
		allowed := 0
		for i := range 40 { // ten seconds forward, eleven back
			at := 1_800_000_000 + i%10 - 11*(i/10)
			dbtest.Exec(t, conn, fmt.Sprintf("SET SESSION timestamp = %d", at))
			r, err := call(conn, user("alice"))
			if err != nil {
				t.Fatal(err)
			}
			if !r.blocked {
				allowed++
			}
		}
		if allowed != 3 {
			t.Errorf("allowed %d, want 3: the whole test lies in one window", allowed)
		}
	})
}

func TestSessionsInAnyTimeZoneShareOneWindow(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 3, time.Minute))
		for i, offset := range []string{"+00:00", "+13:00", "-12:00", "+05:30", "SYSTEM"} {
			r, err := call(sqlSession(t, d, "SET SESSION time_zone = '"+offset+"'"), user("alice"))
			if err != nil || r.blocked != (i >= 3) {
				t.Errorf("session at %s, attempt %d: %+v, %v", offset, i+1, r, err)
			}
		}
		far := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE ABS(TIMESTAMPDIFF(SECOND, created_at, UTC_TIMESTAMP(6))) > 300")
		if far != 0 {
			t.Errorf("%d txns are not in UTC", far)
		}
	})
}

func TestProcedureIsExactAtEveryIsolationLevelOfTheCaller(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 2, time.Hour))
		for _, level := range []string{"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
			key := user(level)
			release := d.Hold(t, key)
			answers := make(chan bool, 6)
			for range cap(answers) {
				conn := sqlSession(t, d, "SET SESSION TRANSACTION ISOLATION LEVEL "+level)
				go func() {
					r, err := call(conn, key)
					if err != nil {
						t.Error(err)
					}
					answers <- r.blocked
				}()
			}
			d.AwaitWaiting(t, cap(answers))
			release()
			allowed := 0
			for range cap(answers) {
				if !<-answers {
					allowed++
				}
			}
			if allowed != 2 {
				t.Errorf("%s: allowed %d, want 2", level, allowed)
			}
		}
	})
}

func TestProcedureRefusesToRunInsideATransaction(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 2, time.Hour))
		for _, statement := range []string{
			"CALL check_velocity(1, 'alice')",
			`CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"alice"}]', NULL)`,
		} {
			conn := sqlSession(t, d, "START TRANSACTION", "INSERT INTO zone_master (id, rate, `window`) VALUES (7, 1, 1)")
			_, err := conn.ExecContext(context.Background(), statement)
			if !session.IsNumber(err, 1568) {
				t.Errorf("%s: %v, want error 1568", statement, err)
			}
			// The caller's work is as it was: neither committed nor rolled back.
			var own int
			if err := conn.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM zone_master WHERE id = 7").Scan(&own); err != nil ||
				own != 1 {
				t.Errorf("%s: the caller sees %d of its rows, %v", statement, own, err)
			}
			if n := d.Count(t, "SELECT COUNT(*) FROM zone_master WHERE id = 7"); n != 0 {
				t.Errorf("%s: the caller's transaction was committed", statement)
			}
			dbtest.Exec(t, conn, "ROLLBACK")
		}
	})
}

func TestBadArgumentsFromSQLAreRefusedInAnyMode(t *testing.T) {
	t.Parallel()
	several := func(bucket string) string { return "CALL check_velocity_buckets('[" + bucket + "]', NULL)" }
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 2, time.Hour))
		long := strings.Repeat("x", 256)
		many := `{"zone_id":1,"bucket_key":"a"}`
		for i := range 255 {
			many += fmt.Sprintf(`,{"zone_id":1,"bucket_key":"%d"}`, i)
		}
		for _, mode := range []string{"STRICT_ALL_TABLES", ""} {
			conn := sqlSession(t, d, "SET SESSION sql_mode = '"+mode+"'")
			for _, statement := range []string{
				"CALL check_velocity(1, '')", "CALL check_velocity(1, NULL)", "CALL check_velocity(1, '" + long + "')",
				"CALL check_velocity(1, '" + long + long + "')", `CALL check_velocity(1, 'a\nb')`, `CALL check_velocity(1, 'a\0b')`,
				"CALL check_velocity(NULL, 'a')", "CALL check_velocity(0, 'a')", "CALL check_velocity(2, 'a')",
				several(many), several(`{"zone_id":1.4,"bucket_key":"a"}`), several(`{"zone_id":"1a","bucket_key":"a"}`),
				several(`{"zone_id":1,"bucket_key":""}`), several(`{"zone_id":1}`), several(""),
				several(`{"zone_id":1,"bucket_key":"` + long + `"}`), several(`{"zone_id":1,"bucket_key":"a\\u0000"}`),
				"CALL check_velocity_buckets('[[', NULL)", "CALL check_velocity_buckets('{}', NULL)", "CALL check_velocity_buckets('null', NULL)",
				"CALL check_velocity_buckets(NULL, NULL)", `CALL check_velocity_buckets('"x"', NULL)`, "CALL check_velocity_buckets('[5]', NULL)",
			} {
				if _, err := conn.ExecContext(context.Background(), statement); err == nil {
					t.Errorf("sql_mode %q: %.70s: accepted", mode, statement)
				}
			}
		}
		locks, txns := d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock"), d.Count(t, "SELECT COUNT(*) FROM zone_txn")
		if locks+txns != 0 {
			t.Errorf("left %d lock rows and %d txns", locks, txns)
		}
		d.AwaitNone(t, "what was refused")
	})
}

func TestABucketThatACheckNamesTwiceIsCountedOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 2, time.Hour))
		for range 2 { // the second time it is remembered
			rows, err := dbtest.Texts(d.SQL, `CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"b"},{"zone_id":1,"bucket_key":"a"},
				{"zone_id":1,"bucket_key":"b"}]', 'x')`)
			if err != nil || len(rows) != 2 || rows[0][3] != "b" || rows[1][3] != "a" || rows[1][10] != "1" {
				t.Fatalf("%q, %v, want b and a once, with a velocity of 1", rows, err)
			}
			if rows, err = dbtest.Texts(d.SQL, `CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"c"},{"zone_id":1,"bucket_key":"c"}]', NULL)`); err != nil ||
				len(rows) != 1 {
				t.Fatalf("%q, %v, want c once", rows, err)
			}
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE check_buckets <=> IF(bucket_key = 'c', NULL, 2)"); n != 4 {
			t.Errorf("%d txns, want a, b and twice c", n)
		}
	})
}

func TestACheckOfAnUnknownZoneIsRefusedWithoutALockRow(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 2, time.Hour))
		for _, mode := range []string{"STRICT_ALL_TABLES", ""} {
			conn := sqlSession(t, d, "SET SESSION sql_mode = '"+mode+"'")
			for _, unknown := range []string{"2", "-1", "99999999999", `"7"`} {
				_, err := conn.ExecContext(t.Context(), `CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"b"},{"zone_id":`+unknown+`,"bucket_key":"b"}]', NULL)`)
				if !session.IsNumber(err, session.NumberUnknown) {
					t.Errorf("sql_mode %q, zone %s: %v, want error %d", mode, unknown, err, session.NumberUnknown)
				}
			}
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock"); n != 0 {
			t.Error("a refused check left a lock row")
		}
	})
}

// TestAProcedureOfTheCallersOwnMayCall holds that a CALL from within another
// procedure sees what was committed while it waited.
func TestAProcedureOfTheCallersOwnMayCall(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 2, time.Hour))
		for name, statement := range map[string]string{
			"one":     "CALL check_velocity(1, 'one')",
			"several": `CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"several"},{"zone_id":1,"bucket_key":"x"}]', NULL)`,
		} {
			dbtest.Exec(t, d.SQL, "CREATE PROCEDURE own_"+name+"() "+statement)
			conn := sqlSession(t, d, "CALL own_"+name+"()")
			release := d.Hold(t, user(name))
			answered := make(chan string, 1)
			go func() {
				answer, _, err := answerTo(conn, "CALL own_"+name+"()")
				if err != nil {
					t.Error(err)
				}
				answered <- answer
			}()
			d.AwaitWaiting(t, 1)
			dbtest.Exec(t, d.SQL, "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) "+
				"VALUES (UTC_TIMESTAMP(6), 1, ?, FALSE, FALSE, TRUE)", name)
			release()
			if answer := <-answered; !strings.Contains(answer, "blocked=1 ") {
				t.Errorf("%s: answered %q, and the bucket was full", name, answer)
			}
		}
	})
}

func TestAKeyWithControlCharactersIsRefusedWhateverTheSessionChecks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 2, time.Hour))
		for _, setting := range []string{"SET SESSION check_constraint_checks = 0", "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'"} {
			conn := sqlSession(t, d)
			if _, err := conn.ExecContext(t.Context(), setting); err != nil {
				continue // MySQL has no such variable
			}
			for _, statement := range []string{
				"CALL check_velocity(1, CONCAT('a', CHAR(10)))",
				"CALL check_velocity_buckets(JSON_ARRAY(JSON_OBJECT('zone_id', 1, 'bucket_key', CONCAT('a', CHAR(27)))), NULL)",
			} {
				if _, err := conn.ExecContext(t.Context(), statement); err == nil {
					t.Errorf("%s: %s: accepted", setting, statement)
				}
			}
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock"); n != 0 {
			t.Errorf("%d lock rows were made", n)
		}
	})
}

func TestDecisionReadsNoMoreThanRateEntries(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		const rate, flood = 5, service.MaxChecks
		d, store := stand(t, engine, session.Options{}, zone(1, flood, 365*24*time.Hour))
		checks := slices.Repeat(check(user("alice")), service.MaxChecks)
		for range 2 { // as many counted as blocked rows
			if _, err := store.CheckAll(context.Background(), service.Call{Checks: checks}); err != nil {
				t.Fatal(err)
			}
		}
		d.SetZone(t, zone(1, rate, 365*24*time.Hour))
		for _, statement := range []string{
			"CALL check_velocity(1, 'alice')",
			`CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"alice"}]', NULL)`,
		} {
			conn := sqlSession(t, d)
			before := handlerReads(t, conn)
			dbtest.Exec(t, conn, statement)
			if read := handlerReads(t, conn) - before; read > 150 { // zones, locks, procedures and intermediate results, whatever the history
				t.Errorf("%s: read %d entries of a history of %d", statement, read, 2*flood)
			}
		}
	})
}

// handlerReads is how many index entries and rows a session has read.
func handlerReads(t *testing.T, conn *sql.Conn) (total int) {
	t.Helper()
	rows, err := conn.QueryContext(context.Background(), "SHOW SESSION STATUS LIKE 'Handler_read%'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return total
}

// wantRefused runs statements that an account has no right to.
func wantRefused(t *testing.T, conn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, statements ...string,
) {
	t.Helper()
	for _, statement := range statements {
		_, err := conn.ExecContext(t.Context(), statement)
		var refused *mysql.MySQLError
		if !errors.As(err, &refused) || refused.Number != 1142 && refused.Number != 1143 && refused.Number != 1370 {
			t.Errorf("%s: %v, want it refused for want of a right", statement, err)
		}
	}
}

func TestTheServicesAccountDecidesAndCannotChangeHistory(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		limited := zone(1, 2, time.Hour)
		limited.Lockout = time.Minute
		d.SetZone(t, limited)
		store := connect(t, d.ServiceAccount(t), session.Options{})
		question := []service.Check{
			{Buckets: []service.Bucket{user("a"), user("b")}, AttemptID: "first"},
			{Buckets: []service.Bucket{user("a")}},
			{Buckets: []service.Bucket{user("a")}},
		}
		for range 2 { // the second time with a lockout and a retry
			decisions, err := store.CheckAll(t.Context(), service.Call{Checks: question})
			if err != nil || decisions[0].Blocked || !decisions[2].Blocked {
				t.Fatalf("got %+v, %v", decisions, err)
			}
		}
		dbtest.Exec(t, d.SQL, "UPDATE zone_attempt SET expires_at = '2000-01-01'")
		if decisions, err := store.CheckAll(t.Context(), service.Call{Checks: question[:1]}); err != nil || !decisions[0].Blocked {
			t.Errorf("after the attempt was forgotten: %+v, %v", decisions, err)
		}
		if errs, err := store.ReportAll(t.Context(), []service.Report{{TxnID: 1, Outcome: service.OutcomeFailure}}); err != nil ||
			errs[0] != nil {
			t.Errorf("report: %v, %v", errs, err)
		}
		wantRefused(t, store.pool.Conns, "UPDATE zone_txn SET blocked = 0", "DELETE FROM zone_txn", "DELETE FROM zone_attempt",
			"UPDATE zone_attempt SET answer = '[]'", "DELETE FROM zone_bucket_lock", "INSERT INTO zone_master (id, rate, `window`) VALUES (9, 1, 1)",
			"UPDATE zone_master SET rate = 9", "DELETE FROM zone_audit")
	})
}

func TestAccountWithNothingButExecuteCanCheck(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 2, time.Hour))
		store := connect(t, d.Account(t, "EXECUTE ON *"), session.Options{})
		decisions, err := sqlStore{conns: store.pool.Conns.DB}.CheckAll(t.Context(), service.Call{Checks: check(user("a"), user("b"))})
		if err != nil || decisions[0].Blocked {
			t.Errorf("got %+v, %v", decisions, err)
		}
		if _, err := store.Zones(t.Context()); err == nil {
			t.Error("the account may read tables that it was not granted")
		}
		conn, err := store.pool.Conns.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		dbtest.Exec(t, conn, "SET @rate = 5, @window = 60, @period = 'none', @anchor = 1, @velocity = NULL, @oldest = NULL")
		// What works under locks that its caller holds.
		wantRefused(t, conn,
			"CALL find_override(1, 'a', FALSE, UTC_TIMESTAMP(6), @a, @b, @c, @d, @e, @f)",
			"CALL judge_bucket(1, 'a', UTC_TIMESTAMP(6), TRUE, 'enforce', 0, 0, 'opaque', FALSE, 0, "+
				"@rate, @window, @period, @anchor, @velocity, @oldest, @since, @until, @wait, @counts, @locked, @id, @action, @reason)",
			"CALL make_bucket(1, 'c', NULL, TRUE)",
			"CALL forget_tally(1, 'a', UTC_TIMESTAMP(6))",
			`CALL decide_check('[{"zone_id":1,"bucket_key":"a"}]', NULL, @a, @b)`,
			"CALL record_attempt(1, 'a', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), TRUE, TRUE, FALSE, 'full', NULL, NULL, NULL, NULL, NULL, @a)",
			"CALL txns_of_check(1, @a, @b, @c, @d)",
			"CALL record_outcome(UTC_TIMESTAMP(6), NULL, 1, 1, 'success', UTC_TIMESTAMP(6), @a)",
			"CALL uncount_bucket(1, 'a', UTC_TIMESTAMP(6))",
			`CALL record_outcomes('[{"txn_id":1,"outcome":"success"}]', @a)`,
			`CALL lock_buckets('[{"zone_id":1,"bucket_key":"a"}]')`)
	})
}
