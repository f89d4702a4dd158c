package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/nightly"
)

// A session may set many variables without any right. These tests hold that none
// of them moves a decision, an instant or an id: the procedures put right what
// would, or refuse the CALL.

// caller is an account that may EXECUTE and nothing else.
type caller struct {
	*enginetest.Database // as an administrator

	own   *sql.DB
	calls int // scripts so far, which use keys of their own
}

// newCaller also sets the zones that script asks about.
func newCaller(t *testing.T, d *enginetest.Database) *caller {
	t.Helper()
	own := d.Account(t, "EXECUTE ON *").SQL
	own.SetMaxIdleConns(0) // each script has a session of its own
	d.SetZone(t, zone(1, 2, time.Hour))
	d.SetZone(t, service.Zone{ID: 2, Rate: 2, Window: time.Hour, Counts: service.CountsFailures, ResetOnSuccess: true})
	d.SetZone(t, service.Zone{ID: 3, Rate: 1, Window: time.Hour, Lockout: 2 * time.Hour})
	return &caller{Database: d, own: own}
}

// answerTo makes one CALL and returns its rows as text, without ids and instants, and
// the ids in order.
func answerTo(conn *sql.Conn, query string, args ...any) (answer string, ids []string, err error) {
	rows, err := conn.QueryContext(context.Background(), query, args...)
	if err != nil {
		return "", nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return "", nil, err
	}
	cells, places := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
	for i := range cells {
		places[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return "", nil, err
		}
		for i, column := range columns {
			switch column {
			case "txn_id":
				if cells[i] != nil {
					ids = append(ids, string(cells[i]))
				}
			case "bucket_key", "checked_at", "locked_until":
			default:
				answer += fmt.Sprintf("%s=%s ", column, cells[i])
			}
		}
		answer += "\n"
	}
	for rows.NextResultSet() { // to the end of the CALL
	}
	return answer, ids, rows.Err()
}

// script asks for everything once, in one session with the given settings, until
// the session is refused, and proves that the rows are those of the answers.
func (c *caller) script(t *testing.T, settings ...string) (answers []string, refused error) {
	t.Helper()
	conn, err := c.own.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, setting := range settings {
		if _, err := conn.ExecContext(t.Context(), setting); err != nil {
			return nil, nil // not for this account to set
		}
	}
	c.calls++
	key := fmt.Sprint("key-", c.calls)
	last := c.Count(t, "SELECT COALESCE(MAX(id), 0) FROM zone_txn")
	both := strings.ReplaceAll(`[{"zone_id":1,"bucket_key":"K b"},{"zone_id":2,"bucket_key":"K b"}]`, "K", key)
	second := strings.ReplaceAll(`[{"zone_id":2,"bucket_key":"K b"}]`, "K", key)
	var all []string
	for _, step := range []struct {
		query string
		args  []any
	}{
		{"CALL check_velocity(1, ?)", []any{key}},
		{"CALL check_velocity(1, ?)", []any{key}},
		{"CALL check_velocity(1, ?)", []any{key}},
		{"CALL check_velocity(3, ?)", []any{key}},
		{"CALL check_velocity(3, ?)", []any{key}},
		{"CALL peek_velocity(3, ?)", []any{key}},
		{"CALL check_velocity_buckets(?, NULL)", []any{both}},
		{"CALL check_velocity_buckets(?, ?)", []any{second, key}},
		{"CALL check_velocity_buckets(?, ?)", []any{second, key}},
		{"CALL check_velocity_buckets(?, NULL)", []any{both}},
		{"CALL report_outcomes(CONCAT('[{\"outcome\":\"success\",\"txn_id\":', ?, '}]'))", nil},
		{"CALL peek_velocity(2, ?)", []any{key + " b"}},
		{"CALL release_bucket(1, ?, 'who', 'why')", []any{key}},
		{"CALL check_velocity(1, ?)", []any{key}},
	} {
		if step.args == nil {
			step.args = []any{all[5]} // the first of both buckets
		}
		for _, setting := range settings { // a CALL may have put it right for the next one
			_, _ = conn.ExecContext(t.Context(), setting)
		}
		answer, ids, err := answerTo(conn, step.query, step.args...)
		if err != nil {
			refused = err
			break
		}
		answer = waitsOfAnHour.ReplaceAllString(answer, "${1}an hour") // less the seconds that the script takes
		answers, all = append(answers, answer), append(all, ids...)
	}
	slices.Sort(all)
	all = slices.Compact(all) // the repeated attempt is answered with the id of the first
	for _, id := range all {
		if n := c.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE id = ? AND bucket_key LIKE ? AND id > ? "+
			"AND ABS(TIMESTAMPDIFF(SECOND, created_at, UTC_TIMESTAMP(6))) < 600", id, key+"%", last); n != 1 {
			t.Errorf("%q: txn %s was answered, and %d rows of now are so called", settings, id, n)
		}
	}
	// A call that ran out of time may have been recorded before that.
	isUnknown := refused != nil && errors.Is(session.FaultOf(refused).Kind, service.ErrUndecided)
	if n := c.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE bucket_key LIKE ? OR bucket_key = ?", key+" %", key); n < len(
		all) ||
		n > len(all) && !isUnknown {
		t.Errorf("%q: %d txns were answered, and %d recorded", settings, len(all), n)
	}
	return answers, refused
}

var waitsOfAnHour = regexp.MustCompile(`((?:retry|reset)_after=)3[0-6]\d\d\b`)

// hold runs a script and compares it with one of a session without settings.
func (c *caller) hold(t *testing.T, want []string, settings ...string) {
	t.Helper()
	got, refused := c.script(t, settings...)
	for i, answer := range got {
		if answer != want[i] {
			t.Errorf("%q: CALL %d answers\n%swant\n%s", settings, i, answer, want[i])
		}
	}
	if refused != nil {
		t.Logf("%q: refused after %d CALLs: %v", settings, len(got), refused)
	}
	c.AwaitNone(t, fmt.Sprintf("%q", settings))
}

// wordySettings are settings of a session by words, expressions or large numbers, and of several variables at once.
func wordySettings() [][]string {
	return [][]string{
		{"SET SESSION insert_id = 18446744073709551614"},
		{"SET SESSION identity = 5"},
		{"SET SESSION timestamp = 2147483000"},
		{"SET SESSION timestamp = UNIX_TIMESTAMP() - 86400"},
		{"SET SESSION time_zone = '+13:00'"},
		{"SET SESSION time_zone = 'SYSTEM'", "SET SESSION timestamp = 86400"},
		{"SET SESSION sql_mode = ''"},
		{"SET SESSION sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,NO_AUTO_VALUE_ON_ZERO'"},
		{"SET SESSION sql_mode = 'TRADITIONAL,HIGH_NOT_PRECEDENCE,PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION'"},
		{"SET SESSION sql_mode = 'TIME_ROUND_FRACTIONAL'"},
		{"SET SESSION sql_mode = 'TIME_TRUNCATE_FRACTIONAL'"},
		{"SET NAMES latin1"},
		{"SET NAMES ucs2"},
		{"SET NAMES utf8mb4 COLLATE utf8mb4_general_ci"},
		{"SET CHARACTER SET latin2"},
		{"SET SESSION character_set_results = NULL"},
		{"SET SESSION collation_connection = utf16_bin"},
		{"SET SESSION auto_increment_increment = 7, auto_increment_offset = 5"},
		{"SET SESSION auto_increment_increment = 65535"},
		{"SET SESSION completion_type = CHAIN"},
		{"SET SESSION completion_type = RELEASE"},
		{"SET SESSION TRANSACTION READ ONLY"},
		{"SET TRANSACTION READ ONLY"},
		{"SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"},
		{"SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"},
		{"SET SESSION unique_checks = 0, foreign_key_checks = 0"},
		{"SET SESSION group_concat_max_len = 4"},
		{"SET SESSION max_sort_length = 4"},
		{"SET SESSION max_sort_length = 8"},
		{"SET SESSION sql_safe_updates = 1, sql_select_limit = 1, max_join_size = 1"},
		{"SET SESSION sql_big_selects = 0, max_join_size = 1"},
		{"SET SESSION tmp_table_size = 1024, max_heap_table_size = 16384, big_tables = 1"},
		{"SET SESSION optimizer_switch = 'derived_merge=off,mrr=on,mrr_cost_based=off,materialization=off'"},
		{"SET SESSION max_statement_time = 0.0001"},
		{"SET SESSION max_execution_time = 1"},
		{"SET SESSION lock_wait_timeout = 1"},
		{"SET SESSION innodb_lock_wait_timeout = 1"},
		{"SET SESSION old_mode = ''"},
	}
}

func TestNoVariableOfASessionMovesADecision(t *testing.T) {
	nightly.Only(t, "each variable and setting of a session, on each engine")
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		c := newCaller(t, engine.Database(t))
		want, err := c.script(t)
		if err != nil || len(want) != 14 {
			t.Fatalf("%d answers, %v", len(want), err)
		}
		for _, settings := range wordySettings() {
			c.hold(t, want, settings...)
		}
		variables, err := enginetest.Texts(c.own, "SHOW SESSION VARIABLES")
		if err != nil {
			t.Fatal(err)
		}
		defaults := map[string]string{}
		for _, v := range variables {
			defaults[v[0]] = v[1]
		}
		moved := 0
		for name := range defaults {
			if strings.HasSuffix(name, "_timeout") { // ends an idle session, or a wait
				continue
			}
			seen := []string{""}
			for _, value := range []string{"0", "1", "2", "3", "1000000"} { // numbers, or places in a list of words
				now := c.read(t, name, value)
				if slices.Contains(seen, now) || now == defaults[name] || slices.Contains([]string{"2", "3"}, now) {
					continue
				}
				seen = append(seen, now)
				moved++
				c.hold(t, want, "SET SESSION "+name+" = "+value)
			}
		}
		if moved < 100 {
			t.Errorf("only %d settings were tried", moved)
		}
	})
}

// read sets a variable in a session of its own and returns its value then, or
// nothing if the account may not set it so.
func (c *caller) read(t *testing.T, name, value string) (now string) {
	t.Helper()
	conn, err := c.own.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "SET SESSION "+name+" = "+value); err != nil {
		return ""
	}
	var skip string
	if err := conn.QueryRowContext(t.Context(), "SHOW SESSION VARIABLES LIKE '"+strings.ReplaceAll(name, "_", `\_`)+
		"'").Scan(&skip,
		&now); err != nil {
		return value // some settings hide the answer
	}
	return now
}

// TestSessionChosenIDRecordsNothing calls each procedure that inserts, and edits what
// triggers record, each in a session of its own.
func TestSessionChosenIDRecordsNothing(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 1, time.Hour), zone(2, 1, time.Hour))
		enginetest.Exec(
			t, d.SQL, "INSERT INTO zone_override (zone_id, bucket_key, action, reason) VALUES (1, 'alice', 'deny', 'why')")
		rows := func() int {
			return d.Count(t, "SELECT (SELECT COUNT(*) FROM zone_txn) + (SELECT COUNT(*) FROM zone_audit)")
		}
		before := rows()
		for _, statement := range []string{
			"CALL check_velocity(1, 'a')",
			`CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"a"}]', NULL)`,
			"CALL release_bucket(1, 'a', 'who', 'why')",
			"INSERT INTO zone_master (id, rate, `window`) VALUES (3, 1, 1)",
			"UPDATE zone_master SET rate = rate + 1",
			"UPDATE zone_override SET reason = 'another'",
			"DELETE FROM zone_override",
			"DELETE FROM zone_master WHERE id = 2",
		} {
			for _, id := range []string{"1", "18446744073709551614"} {
				conn := sqlSession(t, d, "SET SESSION insert_id = "+id)
				if _, err := conn.ExecContext(t.Context(), statement); !session.IsNumber(err, session.NumberBadArgument) {
					t.Errorf("insert_id %s, %s: %v", id, statement, err)
				}
			}
		}
		if n := rows() - before; n != 0 {
			t.Errorf("%d rows are recorded", n)
		}
	})
}

// TestSessionsSortingByKeyHeadsKeepLockOrder has long keys that differ at their ends.
func TestSessionsSortingByKeyHeadsKeepLockOrder(t *testing.T) {
	t.Parallel()
	const rounds, keys = 100, 8
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 1_000_000, time.Hour))
		var buckets [2][keys]string // in opposite orders
		for i := range keys {
			bucket := fmt.Sprintf(`{"zone_id":1,"bucket_key":"%s%d"}`, strings.Repeat("k", 200), i)
			buckets[0][i], buckets[1][keys-1-i] = bucket, bucket
		}
		var group sync.WaitGroup
		for i, setting := range []string{"SET SESSION max_sort_length = 1024", "SET SESSION max_sort_length = 64"} {
			conn := sqlSession(t, d)
			question := "[" + strings.Join(buckets[i][:], ",") + "]"
			group.Go(func() {
				for range rounds {
					enginetest.Exec(t, conn, setting)
					if _, err := conn.ExecContext(t.Context(), "CALL check_velocity_buckets(?, NULL)", question); err != nil {
						t.Errorf("%s: %v", setting, err)
						return
					}
				}
			})
		}
		group.Wait()
	})
}
