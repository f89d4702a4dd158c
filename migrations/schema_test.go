package migrations_test

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"velocityd/tools/enginetest"
)

// session is one plain connection, under a sql_mode.
func session(t *testing.T, d *enginetest.Database, mode string) *sql.Conn {
	t.Helper()
	conn, err := d.SQL.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	enginetest.Exec(t, conn, "SET SESSION sql_mode = '"+mode+"'")
	return conn
}

// modes are those of careful sessions and of careless ones.
func modes() map[string]string {
	return map[string]string{"strict": "STRICT_ALL_TABLES", "not strict": ""}
}

// badZones are values of (id, rate, window), each wrong in one of them.
func badZones() map[string]string {
	return map[string]string{
		"rate NULL":              "11, NULL, 60",
		"rate left out":          "11, DEFAULT, 60",
		"rate negative":          "11, -1, 60",
		"rate absurd":            "11, 1000001, 60",
		"rate beyond INT":        "11, 99999999999, 60",
		"window NULL":            "11, 5, NULL",
		"window left out":        "11, 5, DEFAULT",
		"window 0":               "11, 5, 0",
		"window rounded to 0":    "11, 5, 0.4",
		"window a word":          "11, 5, 'minute'",
		"window negative":        "11, 5, -60",
		"window over 366 days":   "11, 5, 31622401",
		"window beyond INT":      "11, 5, 99999999999",
		"rate and window NULL":   "11, NULL, NULL",
		"id 0":                   "0, 5, 60",
		"id negative":            "-1, 5, 60",
		"id NULL":                "NULL, 5, 60",
		"id a word":              "'one', 5, 60",
		"everything is left out": "DEFAULT, DEFAULT, DEFAULT",
	}
}

// inserts writes a zone alone and among others: NOT NULL alone would turn a NULL
// of a later row into 0 in a careless session.
func inserts(zone string) map[string]string {
	const into = "INSERT INTO zone_master (id, rate, `window`) VALUES "
	return map[string]string{
		"alone": into + "(" + zone + ")", "among others": into + "(10, 5, 60), (" + zone + "), (12, 5, 60)",
	}
}

func TestBadZonesAreRefusedWhoeverWritesThem(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		for mode, setting := range modes() {
			conn := session(t, d, setting)
			for name, bad := range badZones() {
				for form, insert := range inserts(bad) {
					if _, err := conn.ExecContext(t.Context(), insert); err == nil {
						t.Errorf("%s, %s, %s: taken", mode, name, form)
					}
					if got := rows(t, d, "SELECT * FROM zone_master"); len(got) != 0 {
						t.Errorf("%s, %s, %s: left %q behind", mode, name, form, got)
						enginetest.Exec(t, conn, "DELETE FROM zone_master")
					}
				}
			}
		}
	})
}

func TestBadKeysGetNoLockRow(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		bad := []string{"", "tab\t", "line\n"}
		for r := range rune(0xa0) {
			if unicode.IsControl(r) {
				bad = append(bad, "a"+string(r))
			}
		}
		for mode, setting := range modes() {
			conn := session(t, d, setting)
			for _, key := range bad {
				if _, err := conn.ExecContext(t.Context(), "INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (1, ?)",
					key); err == nil {
					t.Errorf("%s: key %q was taken", mode, key)
				}
			}
		}
		enginetest.Exec(
			t, d.SQL, "INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (1, ' '), (1, '~'), (1, ?), (1, ?)",
			"\u00a0", strings.Repeat("🔑", 255))
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock"); n != 4 {
			t.Errorf("%d lock rows, want the 4 good ones", n)
		}
	})
}

// TestKeysAreTakenWhoeverOpensTheTable lets a session that reads backslashes as
// such open the tables: MySQL reads their CHECKs for all sessions then.
func TestKeysAreTakenWhoeverOpensTheTable(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`) VALUES (1, 5, 60)")
		enginetest.Exec(t, d.SQL, "FLUSH TABLES zone_bucket_lock, zone_override")
		for range 32 { // MySQL has 16 caches of open tables, and a session one of them
			plain := session(t, d, "NO_BACKSLASH_ESCAPES")
			enginetest.Exec(t, plain, "DELETE FROM zone_bucket_lock")
			enginetest.Exec(t, plain, "DELETE FROM zone_override")
		}
		enginetest.Exec(t, d.SQL, `INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (1, 'b-2-n{x}')`)
		enginetest.Exec(t, d.SQL, `INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (1, 'b-2-n{x}', 'deny')`)
	})
}

// TestTheCountReadsTheIndexAlone asks the engine how the procedures would count, in the words of
// their own texts, in a bucket that an attacker has filled with blocked txns.
func TestTheCountReadsTheIndexAlone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		values := make([]string, 3000)
		for i := range values {
			counted := i % 100 / 99 // one of a hundred
			values[i] = fmt.Sprintf("(UTC_TIMESTAMP(6) - INTERVAL %d SECOND, %d, 'key-%d', %d, %[4]d, %d, IF(%[5]d, NULL, 'full'))",
				i, 1+i%2, i%7, 1-counted, counted)
		}
		enginetest.Exec(
			t, d.SQL, "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted, reason) VALUES "+
				strings.Join(values, ","))
		enginetest.Exec(t, d.SQL, "ANALYZE TABLE zone_txn")
		for _, procedure := range []string{"judge_bucket", "check_velocity_by_rule"} {
			wantIndexAlone(t, procedure, rows(t, d, "EXPLAIN FORMAT=TRADITIONAL "+countOf(t, procedure)))
		}
		// The index is kept newest first. MariaDB's plan does not say how it reads it.
		if order := rows(t, d, "SELECT GROUP_CONCAT(collation ORDER BY seq_in_index SEPARATOR '') AS directions "+
			"FROM information_schema.statistics WHERE table_schema = DATABASE() AND index_name = 'zone_txn_window'"); len(
			order) != 1 ||
			!strings.Contains(order[0], "AAADD") {
			t.Errorf("the index is not kept newest first: %q", order)
		}
	})
}

// countOf returns the SELECT by which a procedure counts a bucket's txns, of one bucket and an hour.
func countOf(t *testing.T, procedure string) string {
	t.Helper()
	text := sqlFiles(t, "procedures")["procedures/"+procedure+".sql"]
	count := regexp.MustCompile(
		`SELECT (COUNT\(\*\), MIN\(created_at\)\s+INTO [^()]*|created_at\s+)FROM zone_txn\s[^();]*`).FindString(text)
	if !strings.Contains(count, "counted = TRUE") {
		t.Fatalf("%s has no count of txns: %q", procedure, count)
	}
	count = regexp.MustCompile(`INTO .*\n`).ReplaceAllString(count, "")
	return regexp.MustCompile(`\b[pv]_(\w+)`).ReplaceAllStringFunc(count, func(variable string) string {
		return map[string]string{
			"zone_id": "2", "bucket_key": "'key-3'", "now": "UTC_TIMESTAMP(6)", "window": "3600", "rate": "5",
			"since": "UTC_TIMESTAMP(6) - INTERVAL 3600 SECOND",
		}[variable[2:]]
	})
}

// wantIndexAlone holds that a plan reads a range of zone_txn_window, forwards, and nothing else.
func wantIndexAlone(t *testing.T, procedure string, plan []string) {
	t.Helper()
	if len(plan) != 1 || !strings.Contains(plan[0], " | key=zone_txn_window | ") ||
		!strings.Contains(plan[0], "type=range") {
		t.Errorf("%s: the plan is not a range of zone_txn_window: %q", procedure, plan)
		return
	}
	_, extra, _ := strings.Cut(plan[0], "Extra=")
	if !slices.Contains(strings.Split(extra, "; "), "Using index") || strings.Contains(extra, "filesort") ||
		strings.Contains(extra, "temporary") {
		t.Errorf("%s: the count does more than read the index: %s", procedure, extra)
	}
	// MySQL says so. MariaDB does not.
	if strings.Contains(extra, "Backward") {
		t.Errorf("%s: the count reads the index backwards, which loses rows: %s", procedure, extra)
	}
}
