package db

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

func TestProcedureRefusesToRunInsideATransaction(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
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
			if err := conn.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM zone_master WHERE id = 7").Scan(
				&own); err != nil ||
				own != 1 {
				t.Errorf("%s: the caller sees %d of its rows, %v", statement, own, err)
			}
			if n := d.Count(t, "SELECT COUNT(*) FROM zone_master WHERE id = 7"); n != 0 {
				t.Errorf("%s: the caller's transaction was committed", statement)
			}
			enginetest.Exec(t, conn, "ROLLBACK")
		}
	})
}

// refusedBySQL are statements by the number of the error that tells why, or by 0, where any number will do. Of the txns
// that they name the first has failed, and the second was blocked.
func refusedBySQL(failed, blocked uint64) map[uint16][]string {
	several := func(bucket string) string { return "CALL check_velocity_buckets('[" + bucket + "]', NULL)" }
	unknown := func(id string) string {
		return several(`{"zone_id":1,"bucket_key":"b"},{"zone_id":` + id + `,"bucket_key":"b"}`)
	}
	report := func(id, outcome string) string {
		return "CALL report_outcomes('[{\"txn_id\":" + id + ",\"outcome\":" + outcome + "}]')"
	}
	long, id, many := strings.Repeat("x", 256), fmt.Sprint(failed), `{"zone_id":1,"bucket_key":"a"}`
	for i := range 255 {
		many += fmt.Sprintf(`,{"zone_id":1,"bucket_key":"%d"}`, i)
	}
	return map[uint16][]string{
		0: {
			"CALL check_velocity(1, '')", "CALL check_velocity(1, NULL)", "CALL check_velocity(1, '" + long + long + "')",
			"CALL check_velocity(1, CONCAT('a', CHAR(10)))", "CALL check_velocity(1, CONCAT('a', CHAR(0)))",
			"CALL check_velocity(NULL, 'a')",
			"CALL check_velocity(0, 'a')", several(many), several(`{"zone_id":1.4,"bucket_key":"a"}`),
			several(`{"zone_id":"1a","bucket_key":"a"}`), several(`{"zone_id":1,"bucket_key":""}`), several(`{"zone_id":1}`),
			several(""),
			several(`{"zone_id":1,"bucket_key":"` + long + `"}`), unknown("-1"), unknown("99999999999"), unknown(`"7"`),
			"CALL check_velocity_buckets(JSON_ARRAY(JSON_OBJECT('zone_id', 1, 'bucket_key', CONCAT('a', CHAR(27)))), NULL)",
			"CALL check_velocity_buckets('[[', NULL)", "CALL check_velocity_buckets('{}', NULL)",
			"CALL check_velocity_buckets('null', NULL)",
			"CALL check_velocity_buckets(NULL, NULL)", `CALL check_velocity_buckets('"x"', NULL)`,
			"CALL check_velocity_buckets('[5]', NULL)",
		},
		session.NumberUnknown: {
			"CALL check_velocity(2, 'a')", unknown("2"), "CALL check_velocity_by_rule(2, 'a', NULL, TRUE)",
			"CALL check_velocity_by_rule(2, 'a', 'opaque', TRUE)", "CALL peek_velocity(2, 'a')", "CALL peek_velocity(NULL, 'a')",
			"CALL release_bucket(2, 'a', 'who', 'why')", "CALL release_bucket(NULL, 'a', 'who', 'why')",
			"CALL report_outcome(99999, 'success')",
			"CALL report_outcome(0, 'success')", "CALL report_attempt('never', 'success')",
		},
		session.NumberStaleKeyRule: {
			"CALL check_velocity_by_rule(1, 'never', 'ip/32/64', TRUE)",
			"CALL check_velocity_by_rule(1, 'alice', 'username', TRUE)",
			several(`{"zone_id":1,"bucket_key":"new","key_rule":"username"}`),
		},
		session.NumberContradiction: {
			"CALL report_outcome(" + id + ", 'success')", fmt.Sprintf("CALL report_outcome(%d, 'failure')", blocked),
			"CALL report_attempt('blocked', 'failure')",
		},
		session.NumberBadArgument: {
			"CALL check_velocity(1, '" + long + "')", "CALL check_velocity_by_rule(1, NULL, 'opaque', TRUE)",
			"CALL peek_velocity(1, '')", "CALL peek_velocity(1, NULL)", "CALL peek_velocity(1, '" + long + "')",
			"CALL release_bucket(1, 'a', 'who', '')", "CALL release_bucket(1, 'a', 'who', NULL)",
			"CALL release_bucket(1, '', 'who', 'why')",
			"CALL release_bucket(1, '" + long + "', 'w', 'w')", "CALL release_bucket(1, 'a', '" + long[:129] + "', 'w')",
			"CALL release_bucket(1, 'a', 'w', '" + long + "')", "CALL report_outcome(NULL, 'success')",
			"CALL report_outcome(1, 'won')",
			"CALL report_outcome(1, NULL)", "CALL report_outcome(1, '')", "CALL report_outcome(" + id + ", 'süccess')",
			"CALL report_outcome(" + id + ", 'success ')", "CALL report_attempt(NULL, 'success')",
			"CALL report_attempt('', 'success')",
			"CALL report_attempt('é', 'success')", "CALL report_attempt('" + long[:65] + "', 'success')",
			"CALL report_attempt('never', 'won')",
			`CALL report_outcomes('[{"txn_id":1,"attempt_id":"blocked","outcome":"success"}]')`, "CALL report_outcomes('{}')",
			"CALL report_outcomes('null')", "CALL report_outcomes(NULL)", "CALL report_outcomes('[{}]')",
			"CALL report_outcomes('[5]')",
			`CALL report_outcomes('[{"txn_id":1}]')`, `CALL report_outcomes('[{"outcome":"success"}]')`,
			report(id+".4", `"success"`), report(`"`+id+`abc"`, `"success"`), report("-"+id, `"success"`),
			report("true", `"success"`),
			report("18446744073709551616", `"success"`), report("99999999999999999999", `"success"`),
			report("null", `"success"`),
			report("[]", `"success"`), report(id, `"süccess"`), report(id, `"success "`), report(id, `"SUCCESS"`),
			report(id, `"succ\\u00adess"`), report(id, "null"),
		},
	}
}

func TestBadStatementsFailByNumberInAnySession(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, zone(1, 1, time.Hour))
		decisions := decide(t, store, append(check(user("alice")), attempt("blocked", user("alice"))...))
		failed, blocked := decisions[0].TxnID(), decisions[1].TxnID()
		// The highest id fails no other report.
		receipts, err := store.ReportAll(t.Context(), []service.Report{
			{TxnID: failed, Outcome: service.OutcomeFailure}, {TxnID: math.MaxUint64, Outcome: service.OutcomeFailure},
		})
		if err != nil || receipts[0] != nil || !errors.Is(receipts[1], service.ErrNotFound) {
			t.Errorf("got %v, %v", receipts, err)
		}
		for _, setting := range []string{
			"sql_mode = 'STRICT_ALL_TABLES'", "sql_mode = ''", "sql_mode = 'NO_BACKSLASH_ESCAPES'",
			"check_constraint_checks = 0",
		} {
			conn := sqlSession(t, d)
			if _, err := conn.ExecContext(t.Context(), "SET SESSION "+setting); err != nil {
				continue // MySQL has no check_constraint_checks
			}
			for number, statements := range refusedBySQL(failed, blocked) {
				for _, statement := range statements {
					if _, err := conn.ExecContext(t.Context(), statement); err == nil || number > 0 && !session.IsNumber(err, number) {
						t.Errorf("%s: %.80s: %v, want error %d", setting, statement, err, number)
					}
				}
			}
			for _, id := range []string{
				"", strings.Repeat("x", 65), strings.Repeat("x", 257), "é", "ſ", "\u212a", "a\tb", "a\n", "\n", "a\x00", "\x7f",
				"🔑",
			} {
				if _, err := conn.ExecContext(t.Context(), `CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"a"}]', ?)`,
					id); err == nil {
					t.Errorf("%s: attempt id %.20q: taken", setting, id)
				}
			}
			d.AwaitNone(t, setting)
		}
		d.WantCount(t, 0, "SELECT COUNT(*) FROM zone_bucket_lock WHERE bucket_key <> 'alice'")
		if txns, kept := d.Txns(t, user("alice")), d.Count(t, "SELECT COUNT(*) FROM zone_attempt"); len(txns) != 2 ||
			txns[0].Outcome != service.OutcomeFailure || txns[1].Outcome != "" || kept != 1 {
			t.Errorf("left are %+v and %d attempts, want the two that were decided", txns, kept)
		}
	})
}
