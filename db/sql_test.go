package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/dbtest"
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
			"would_block", "velocity",
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
		d := engine.Database(t)
		d.SetZone(t, zone(1, 1, time.Minute))
		// The engine lets a session say what time it is: the one way to meet an
		// instant exactly.
		conn := session(t, d)
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
		d := engine.Database(t)
		d.SetZone(t, zone(1, 3, time.Minute))
		conn := session(t, d)
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
		d := engine.Database(t)
		d.SetZone(t, zone(1, 3, time.Minute))
		for i, offset := range []string{"+00:00", "+13:00", "-12:00", "+05:30", "SYSTEM"} {
			r, err := call(session(t, d, "SET SESSION time_zone = '"+offset+"'"), user("alice"))
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
		d := engine.Database(t)
		d.SetZone(t, zone(1, 2, time.Hour))
		for _, level := range []string{"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
			key := user(level)
			release := d.Hold(t, key)
			answers := make(chan bool, 6)
			for range cap(answers) {
				conn := session(t, d, "SET SESSION TRANSACTION ISOLATION LEVEL "+level)
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
		d := engine.Database(t)
		d.SetZone(t, zone(1, 2, time.Hour))
		for _, statement := range []string{
			"CALL check_velocity(1, 'alice')",
			`CALL check_velocity_batch('[{"buckets":[{"zone_id":1,"bucket_key":"alice"}]}]')`,
		} {
			conn := session(t, d, "START TRANSACTION", "INSERT INTO zone_master (id, rate, `window`) VALUES (7, 1, 1)")
			_, err := conn.ExecContext(context.Background(), statement)
			if !isNumber(err, 1568) {
				t.Errorf("%s: %v, want error 1568", statement, err)
			}
			// The caller's work is as it was: neither committed nor rolled back.
			var own int
			if err := conn.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM zone_master WHERE id = 7").Scan(&own); err != nil || own != 1 {
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
	batch := func(bucket string) string { return "CALL check_velocity_batch('[{\"buckets\":[" + bucket + "]}]')" }
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		d.SetZone(t, zone(1, 2, time.Hour))
		long := strings.Repeat("x", 256)
		for _, mode := range []string{"STRICT_ALL_TABLES", ""} {
			conn := session(t, d, "SET SESSION sql_mode = '"+mode+"'")
			for _, statement := range []string{
				"CALL check_velocity(1, '')", "CALL check_velocity(1, NULL)", "CALL check_velocity(1, '" + long + "')",
				"CALL check_velocity(1, '" + long + long + "')", `CALL check_velocity(1, 'a\nb')`, `CALL check_velocity(1, 'a\0b')`,
				"CALL check_velocity(NULL, 'a')", "CALL check_velocity(0, 'a')", "CALL check_velocity(2, 'a')",
				batch(`{"zone_id":1,"bucket_key":""}`), batch(`{"zone_id":1}`), batch(""),
				batch(`{"zone_id":1,"bucket_key":"` + long + `"}`), batch(`{"zone_id":1,"bucket_key":"a\\u0000"}`),
				batch(`{"zone_id":1,"bucket_key":"a"},{"zone_id":1,"bucket_key":"a"}`),
				"CALL check_velocity_batch('[[')", "CALL check_velocity_batch('{}')", "CALL check_velocity_batch('null')",
				"CALL check_velocity_batch(NULL)", `CALL check_velocity_batch('"x"')`,
			} {
				if _, err := conn.ExecContext(context.Background(), statement); err == nil {
					t.Errorf("sql_mode %q: %.70s: accepted", mode, statement)
				}
			}
		}
		locks, txns := d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock"), d.Count(t, "SELECT COUNT(*) FROM zone_txn")
		if open, _ := d.Transactions(t); locks+txns+open != 0 {
			t.Errorf("left %d lock rows, %d txns, %d open transactions", locks, txns, open)
		}
	})
}

func TestBatchRefusesOnlyTheCheckOfAnUnknownZone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		d.SetZone(t, zone(1, 2, time.Hour))
		rows, err := d.SQL.Query(`CALL check_velocity_batch('[
{"buckets":[{"zone_id":1,"bucket_key":"a"}]},
{"buckets":[{"zone_id":1,"bucket_key":"b"},{"zone_id":99999999999,"bucket_key":"b"}]},
{"buckets":[{"zone_id":1,"bucket_key":"a"}]}]')`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var got []string
		for rows.Next() {
			var a answer
			if err := a.scanBatch(rows); err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%d %d %s %t %d", a.checkNo, a.bucketNo, a.status, a.blocked.Bool, a.remaining.V))
		}
		want := []string{"0 0 decided false 1", "1 0 refused false 0", "1 1 unknown_zone false 0", "2 0 decided false 0"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock WHERE bucket_key = 'b'"); n != 0 {
			t.Error("a refused check left a lock row")
		}
	})
}

func TestDecisionReadsNoMoreThanRateEntries(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		const rate, flood = 5, service.MaxChecks
		d := engine.Database(t)
		d.SetZone(t, zone(1, flood, 365*24*time.Hour))
		store := NewProcStore(connect(t, d, Options{}))
		checks := slices.Repeat(check(user("alice")), service.MaxChecks)
		for range 2 { // as many counted as blocked rows
			if _, err := store.CheckAll(context.Background(), checks); err != nil {
				t.Fatal(err)
			}
		}
		d.SetZone(t, zone(1, rate, 365*24*time.Hour))
		for _, statement := range []string{
			"CALL check_velocity(1, 'alice')",
			`CALL check_velocity_batch('[{"buckets":[{"zone_id":1,"bucket_key":"alice"}]}]')`,
		} {
			conn := session(t, d)
			before := handlerReads(t, conn)
			dbtest.Exec(t, conn, statement)
			if read := handlerReads(t, conn) - before; read > 100 { // zones, locks and intermediate results, whatever the history
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

func TestAccountWithNothingButExecuteCanCheck(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		d.SetZone(t, zone(1, 2, time.Hour))
		cfg, err := mysql.ParseDSN(d.DSN)
		if err != nil {
			t.Fatal(err)
		}
		account := fmt.Sprintf("'t%x'@'localhost'", time.Now().UnixNano())
		dbtest.Exec(t, d.SQL, "CREATE USER "+account+" IDENTIFIED BY 'pass'")
		t.Cleanup(func() { _, _ = d.SQL.Exec("DROP USER " + account) })
		dbtest.Exec(t, d.SQL, "GRANT EXECUTE ON "+cfg.DBName+".* TO "+account)
		cfg.User, cfg.Passwd = strings.Split(account, "'")[1], "pass"
		if cfg.Net != "unix" {
			t.Skip("the account is made for the socket")
		}
		pool := connect(t, &dbtest.Database{DSN: cfg.FormatDSN()}, Options{})
		decisions, err := NewProcStore(pool).CheckAll(context.Background(), check(user("a"), user("b")))
		if err != nil || decisions[0].Blocked {
			t.Errorf("got %+v, %v", decisions, err)
		}
		if _, err := pool.Zones(context.Background()); err == nil {
			t.Error("the account may read tables that it was not granted")
		}
		// What works under locks that its caller holds, or runs text it is given.
		for name, call := range map[string]string{
			"find_override":   "(1, 'a', FALSE, UTC_TIMESTAMP(6), @a, @b, @c, @d, @e)",
			"find_attempt":    "('a', UTC_TIMESTAMP(6), @a, @b, @c)",
			"find_overrides":  "('[]', '[]', '1', UTC_TIMESTAMP(6), @a, @b, @c)",
			"decide_together": "('[]', '1', '[[1,\"0) OR (1=1\"]]', UTC_TIMESTAMP(6), @a, @b, @c)",
			"decide_in_turn":  `('[{"buckets":[{"zone_id":1,"bucket_key":"a"}]}]', '1', UTC_TIMESTAMP(6), @a)`,
			"find_check":      "(1, @a)",
			"forget_counted":  "(1, 'a', UTC_TIMESTAMP(6))",
			"record_outcomes": `('[{"txn_id":1,"outcome":"success"}]', @a)`,
		} {
			_, err := pool.db.ExecContext(context.Background(), "CALL "+name+call)
			var refused *mysql.MySQLError
			if !errors.As(err, &refused) || refused.Number != 1142 {
				t.Errorf("%s: %v, want error 1142", name, err)
			}
		}
	})
}

func TestEncodeChecksIsWhatTheProcedureReads(t *testing.T) {
	t.Parallel()
	encoded, err := encodeChecks([]service.Check{{Buckets: []service.Bucket{user(`a"\é`), {ZoneID: 2, Key: "<&>"}}}})
	if err != nil {
		t.Fatal(err)
	}
	var decoded []struct {
		Buckets []map[string]any `json:"buckets"`
	}
	if err := json.Unmarshal([]byte(encoded), &decoded); err != nil {
		t.Fatal(err)
	}
	if b := decoded[0].Buckets; b[0]["bucket_key"] != `a"\é` || b[1]["zone_id"] != 2.0 || len(b[0]) != 2 {
		t.Errorf("encoded as %s", encoded)
	}
}
