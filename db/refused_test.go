package db

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
)

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

func TestBadArgumentsFromSQLAreRefusedInAnySession(t *testing.T) {
	t.Parallel()
	several := func(bucket string) string { return "CALL check_velocity_buckets('[" + bucket + "]', NULL)" }
	unknown := func(id string) string {
		return several(`{"zone_id":1,"bucket_key":"b"},{"zone_id":` + id + `,"bucket_key":"b"}`)
	}
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 2, time.Hour))
		long := strings.Repeat("x", 256)
		many := `{"zone_id":1,"bucket_key":"a"}`
		for i := range 255 {
			many += fmt.Sprintf(`,{"zone_id":1,"bucket_key":"%d"}`, i)
		}
		for _, setting := range []string{
			"sql_mode = 'STRICT_ALL_TABLES'", "sql_mode = ''", "sql_mode = 'NO_BACKSLASH_ESCAPES'", "check_constraint_checks = 0",
		} {
			conn := sqlSession(t, d)
			if _, err := conn.ExecContext(t.Context(), "SET SESSION "+setting); err != nil {
				continue // MySQL has no check_constraint_checks
			}
			for _, statement := range []string{
				"CALL check_velocity(1, '')", "CALL check_velocity(1, NULL)", "CALL check_velocity(1, '" + long + "')",
				"CALL check_velocity(1, '" + long + long + "')", "CALL check_velocity(1, CONCAT('a', CHAR(10)))", "CALL check_velocity(1, CONCAT('a', CHAR(0)))",
				"CALL check_velocity(NULL, 'a')", "CALL check_velocity(0, 'a')", "CALL check_velocity(2, 'a')",
				several(many), several(`{"zone_id":1.4,"bucket_key":"a"}`), several(`{"zone_id":"1a","bucket_key":"a"}`),
				several(`{"zone_id":1,"bucket_key":""}`), several(`{"zone_id":1}`), several(""),
				several(`{"zone_id":1,"bucket_key":"` + long + `"}`), unknown("2"), unknown("-1"), unknown("99999999999"), unknown(`"7"`),
				"CALL check_velocity_buckets(JSON_ARRAY(JSON_OBJECT('zone_id', 1, 'bucket_key', CONCAT('a', CHAR(27)))), NULL)",
				"CALL check_velocity_buckets('[[', NULL)", "CALL check_velocity_buckets('{}', NULL)", "CALL check_velocity_buckets('null', NULL)",
				"CALL check_velocity_buckets(NULL, NULL)", `CALL check_velocity_buckets('"x"', NULL)`, "CALL check_velocity_buckets('[5]', NULL)",
			} {
				if _, err := conn.ExecContext(context.Background(), statement); err == nil {
					t.Errorf("%s: %.70s: accepted", setting, statement)
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
