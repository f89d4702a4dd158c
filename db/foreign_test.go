package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/nightly"
)

// foreignSettings are variables that change how an engine reads or evaluates an expression, those first that once
// changed the text of a CHECK or a procedure, or whether it is obeyed. Engines that do not have one are left out.
func foreignSettings() []string {
	seen := []string{
		"default_collation_for_utf8mb4 = utf8mb4_general_ci", "character_set_collations = 'utf8mb4=utf8mb4_general_ci'",
		"collation_connection = utf8mb4_general_ci", "character_set_client = latin1", "div_precision_increment = 0",
		"group_concat_max_len = 4", "sql_mode = ''", "sql_mode = 'ANSI'", "sql_mode = 'NO_BACKSLASH_ESCAPES'",
		"sql_mode = 'HIGH_NOT_PRECEDENCE'", "sql_mode = 'EMPTY_STRING_IS_NULL'",
	}
	if !nightly.Is() {
		return seen
	}
	settings := append(seen,
		"collation_connection = utf8mb4_bin", "collation_connection = latin1_swedish_ci",
		"collation_connection = ucs2_general_ci",
		"collation_connection = binary", "character_set_client = gbk", "character_set_results = latin1",
		"character_set_collations = 'utf8mb4=utf8mb4_uca1400_as_cs'", "collation_server = utf8mb4_bin",
		"div_precision_increment = 30", "time_zone = '+13:00'", "lc_time_names = 'de_DE'", "default_week_format = 7",
		"old_mode = ''", "old_mode = 'NO_PROGRESS_INFO,UTF8_IS_UTF8MB3,IGNORE_INDEX_ONLY_FOR_JOIN,COMPAT_5_1_CHECKSUM'",
		"explicit_defaults_for_timestamp = 0", "sql_auto_is_null = 1", "regexp_time_limit = 0",
		"default_regex_flags = 'IGNORE_CASE,EXTENDED'",
	)
	for _, mode := range []string{
		"TRADITIONAL", "PIPES_AS_CONCAT", "ANSI_QUOTES", "IGNORE_SPACE", "PAD_CHAR_TO_FULL_LENGTH", "REAL_AS_FLOAT",
		"NO_UNSIGNED_SUBTRACTION",
		"ALLOW_INVALID_DATES", "NO_AUTO_VALUE_ON_ZERO", "TIME_TRUNCATE_FRACTIONAL", "SIMULTANEOUS_ASSIGNMENT",
		"TIME_ROUND_FRACTIONAL", "ORACLE", "MSSQL",
	} {
		settings = append(settings, "sql_mode = '"+mode+"'")
	}
	return settings
}

// TestForeignSessionSettingsNeverChangeTheSchema lets a session with a setting, which all new sessions
// have as well if it can be set for them, be the first to open each table after FLUSH TABLES.
func TestForeignSessionSettingsNeverChangeTheSchema(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		server := engine.Private(t, t.TempDir(), "--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2")
		dsn := enginetest.AdminDSN(server, "") + "?sql_mode=%27STRICT_ALL_TABLES%27"
		shared := enginetest.Empty(t, dsn)
		enginetest.Migrate(t, shared.DSN)
		tried := 0
		for _, setting := range foreignSettings() {
			name, _, _ := strings.Cut(setting, " ")
			_, globally := shared.SQL.Exec("SET GLOBAL " + setting)
			d := shared
			if globally == nil && name != "sql_mode" {
				d = enginetest.Empty(t, dsn)
				enginetest.Migrate(t, d.DSN)
			}
			foreign := sqlSession(t, d)
			if _, alone := foreign.ExecContext(t.Context(), "SET SESSION "+setting); globally != nil && alone != nil {
				continue
			}
			tried++
			d.SetZone(t, zone(1, 1, time.Hour))
			d.SetZone(t, service.Zone{
				ID: 2, Rate: 1, Window: time.Hour, Lockout: time.Hour, Counts: service.CountsFailures,
				ResetOnSuccess: true,
			})
			enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`, key_kind) VALUES (3, 1, 60, 'ip')")
			enginetest.Exec(t, d.SQL, "FLUSH TABLES")
			openAll(t, foreign)
			wantRules(t, d, setting)
			wantService(t, d, setting)
			for _, table := range []string{
				"zone_override", "zone_master", "zone_bucket_lock", "zone_txn", "zone_attempt",
				"access_token",
			} {
				enginetest.Exec(t, d.SQL, "DELETE FROM "+table)
			}
			if globally == nil {
				enginetest.Exec(t, shared.SQL, "SET GLOBAL "+name+" = DEFAULT")
			}
		}
		if least := len(foreignSettings()) * 2 / 3; tried < least {
			t.Errorf("%d settings were tried, want %d", tried, least)
		}
	})
}

// openAll has the session open each table with its triggers, and each view.
func openAll(t *testing.T, foreign *sql.Conn) {
	t.Helper()
	for _, table := range []string{
		"zone_master", "zone_override", "zone_bucket_lock", "zone_txn", "zone_attempt", "zone_audit",
		"access_token",
	} {
		enginetest.Exec(t, foreign, "DELETE FROM "+table+" WHERE FALSE")
	}
	for _, view := range []string{
		"read_zone", "read_txn", "read_history", "read_bucket", "read_override", "read_attempt",
		"read_audit",
	} {
		enginetest.Exec(t, foreign, "SELECT COUNT(*) FROM "+view)
	}
	enginetest.Exec(t, foreign, "UPDATE zone_master SET rate = rate + 1 WHERE id = 3")
	enginetest.Exec(t, foreign, "UPDATE zone_bucket_lock SET lockout_us = 0")
}

// wantRules tests which rows the CHECKs and triggers take and refuse in a session with strict mode.
func wantRules(t *testing.T, d *enginetest.Database, setting string) {
	t.Helper()
	conn := sqlSession(t, d, "SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
	const token = "INSERT INTO access_token (kind, name, digest, shown, subject, scopes, zones, created_by) VALUES "
	for statement, isTaken := range map[string]bool{
		"UPDATE zone_master SET description = 'ä' WHERE id = 1":                                                              true,
		"UPDATE zone_master SET rate = -1 WHERE id = 1":                                                                      false,
		"UPDATE zone_master SET `window` = 0 WHERE id = 1":                                                                   false,
		"UPDATE zone_master SET lockout_factor = 0.5 WHERE id = 1":                                                           false,
		"UPDATE zone_master SET reserve_ttl = 7200 WHERE id = 1":                                                             false,
		"UPDATE zone_master SET id = 9 WHERE id = 1":                                                                         false,
		"INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (1, 'plain')":                                             true,
		"INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (1, _utf8mb4 0xC3A4225C27)":                               true,
		"INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (1, _utf8mb4 0xC3BF7E)":                                   true,
		"INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (1, '')":                                                  false,
		"INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (1, _utf8mb4 0x617F62)":                                   false,
		"INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (1, _utf8mb4 0x610A)":                                     false,
		"INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (1, _utf8mb4 0xC3A47F)":                                   false,
		"INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (1, 'denied', 'deny')":                               true,
		"INSERT INTO zone_override (zone_id, prefix, action) VALUES (3, '203.0.113.0/24', 'allow')":                          true,
		"INSERT INTO zone_override (zone_id, prefix, action) VALUES (1, '203.0.113.0/24', 'allow')":                          false,
		"INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (1, '', 'deny')":                                     false,
		"INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (1, _utf8mb4 0x7F, 'deny')":                          false,
		"INSERT INTO zone_override (zone_id, bucket_key, action, rate) VALUES (1, 'b', 'deny', 5)":                           false,
		"INSERT INTO zone_override (zone_id, bucket_key, action, expires_at) VALUES (1, 'c', 'deny', '2200-01-01')":          false,
		"INSERT INTO zone_override (zone_id, bucket_key, action, expires_at) VALUES (1, 'd', 'deny', '2199-12-31 23:59:59')": true,
		token +
			"('token', 'auth-1', REPEAT('a', 32), 'abc', NULL, 'check', '1,2', 'me')": true,
		token + "('certificate', 'auth-2', REPEAT('b', 32), NULL, 'CN=a', 'check', NULL, 'me')": true,
		token + "('token', '1auth', REPEAT('c', 32), 'abc', NULL, 'check', NULL, 'me')":         false,
		token + "('token', _utf8mb4 0x610A, REPEAT('c', 32), 'abc', NULL, 'check', NULL, 'me')": false,
		token + "('token', 'auth-3', REPEAT('c', 32), 'abc', 'CN=a', 'check', NULL, 'me')":      false,
		token + "('token', 'auth-4', REPEAT('c', 32), 'abc', NULL, '', NULL, 'me')":             false,
		token + "('token', 'auth-5', REPEAT('c', 32), 'abc', NULL, 'check', '1,,2', 'me')":      false,
	} {
		_, err := conn.ExecContext(t.Context(), statement)
		var refused *mysql.MySQLError
		if err == nil != isTaken || errors.As(err, &refused) && refused.Number != 3819 && refused.Number != 4025 &&
			refused.Number != 45400 {
			t.Errorf("%s: %s: %v", setting, statement, err)
		}
	}
}

// wantService holds that the service checks, reports, releases and edits, and so do callers by SQL.
func wantService(t *testing.T, d *enginetest.Database, setting string) {
	t.Helper()
	store := connect(t, d, session.Options{})
	question := check(service.Bucket{ZoneID: 2, Key: "ä"}, service.Bucket{ZoneID: 1, Key: "new"})
	question[0].AttemptID = "attempt"
	pair, err := ask(t.Context(), store, question)
	if err != nil || pair.Blocked {
		t.Errorf("%s: a check of two buckets: %+v, %v", setting, pair, err)
		return
	}
	lone, err := ask(t.Context(), store, check(service.Bucket{ZoneID: 2, Key: "ä"}))
	if err != nil || !lone.Blocked {
		t.Errorf("%s: the second check: %+v, %v", setting, lone, err)
	}
	denied, err := ask(t.Context(), store, check(service.Bucket{ZoneID: 1, Key: "denied"}))
	if err != nil || !denied.Blocked {
		t.Errorf("%s: a denied check: %+v, %v", setting, denied, err)
	}
	allowed, err := ask(t.Context(), store, check(service.Bucket{ZoneID: 3, Key: "203.0.113.9"}))
	if err != nil || allowed.Blocked || allowed.Verdicts[0].Velocity != 0 {
		t.Errorf("%s: a check of an allowed address: %+v, %v", setting, allowed, err)
	}
	report(t, store, pair.TxnID(), service.OutcomeSuccess)
	if err := store.Release(t.Context(), service.Bucket{ZoneID: 2, Key: "ä"}, "ann", "forgot"); err != nil {
		t.Errorf("%s: a release: %v", setting, err)
	}
	if peek, err := store.Peek(t.Context(), service.Bucket{ZoneID: 2, Key: "ä"}); err != nil || peek.Velocity != 0 {
		t.Errorf("%s: a peek: %+v, %v", setting, peek, err)
	}
	if _, err := store.Records.PutZone(t.Context(), zone(4, 2, time.Minute), service.Match{}, "ann"); err != nil {
		t.Errorf("%s: an edit: %v", setting, err)
	}
	for _, call := range []string{
		"CALL check_velocity(4, 'ä')", "CALL peek_velocity(4, 'ä')",
		`CALL check_velocity_buckets('[{"zone_id":4,"bucket_key":"a"}]', 'b')`,
		fmt.Sprintf("CALL report_outcome(%d, 'success')", pair.TxnID()), "CALL release_bucket(4, 'ä', NULL, 'why')",
	} {
		if rows, err := d.SQL.QueryContext(context.Background(), call); err != nil {
			t.Errorf("%s: %s: %v", setting, call, err)
		} else if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Errorf("%s: %s: %v", setting, call, err)
		}
	}
}
