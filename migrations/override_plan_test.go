package migrations_test

import (
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"velocityd/tools/enginetest"
)

// TestOverridesAreLookedUpByKey asks the engines how find_override would find its
// way among many, in the words of its text.
func TestOverridesAreLookedUpByKey(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		addressZones(t, d)
		var values []string
		for i := range 2_000 {
			values = append(values, fmt.Sprintf("(1, '10.%d.%d.1', NULL, 'deny')", i/256, i%256),
				fmt.Sprintf("(1, NULL, '172.%d.%d.0/24', 'deny')", i/256, i%256))
		}
		for chunk := range slices.Chunk(values, 2000) {
			enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, bucket_key, prefix, action) VALUES "+
				strings.Join(chunk, ","))
		}
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, prefix, action) VALUES (1, '172.0.0.0/8', 'allow'), "+
			"(1, '2001:db8::/32', 'deny')")
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_override_prefix_length (zone_id, family, prefix_length) VALUES "+
			strings.Join(otherZones(500), ","))
		enginetest.Exec(t, d.SQL, "ANALYZE TABLE zone_override, zone_override_prefix_length")
		explain := regexp.MustCompile(`(?m)^\s*INTO p_id.*\n`).ReplaceAllString(
			sqlFiles(t, "procedures")["procedures/find_override.sql"], "")
		explain = regexp.MustCompile(`(?m)^(\s*)SELECT (o\.)?id`).ReplaceAllString(
			explain, "${1}EXPLAIN FORMAT=TRADITIONAL SELECT ${2}id")
		carryOut(t, d, strings.Replace(explain, "PROCEDURE find_override", "PROCEDURE explain_override", 1))
		plans := plansOf(t, d, "CALL explain_override(1, '10.4.1.1', TRUE, UTC_TIMESTAMP(6), @a, @b, @c, @d, @e, @f)")
		if len(plans) != 3 {
			t.Fatalf("got the plans of %d tables, want 3: %q", len(plans), plans)
		}
		for i, want := range []string{"key=zone_override_key", "key=PRIMARY", "key=zone_override_network"} {
			if !strings.Contains(plans[i], want+" ") || regexp.MustCompile(`type=(ALL|index) `).MatchString(plans[i]) {
				t.Errorf("table %d: %s, want %s", i, plans[i], want)
			}
		}
		conn := session(t, d, "STRICT_ALL_TABLES")
		before := reads(t, conn)
		enginetest.Exec(t, conn, "CALL find_override(1, '172.4.1.9', TRUE, UTC_TIMESTAMP(6), @a, @b, @c, @d, @e, @f)")
		if n := reads(t, conn) - before; n > 30 {
			t.Errorf("read %d entries and rows of 4,000 overrides", n)
		}
		var action string
		if err := conn.QueryRowContext(t.Context(), "SELECT @b").Scan(&action); err != nil || action != "deny" {
			t.Errorf("found %q, %v, want the deny of the longer prefix", action, err)
		}
	})
}

// otherZones are rows of zone_override_prefix_length for other zones.
func otherZones(n int) (rows []string) {
	for i := range n {
		rows = append(rows, fmt.Sprintf("(%d, 4, 16), (%[1]d, 4, 24)", 1000+i))
	}
	return rows
}

// plansOf returns the rows of all result sets of a CALL, one line each.
func plansOf(t *testing.T, d *enginetest.Database, query string) (lines []string) {
	t.Helper()
	result, err := d.SQL.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	for more := true; more; more = result.NextResultSet() {
		lines = append(lines, read(t, result)...)
	}
	return lines
}

// reads is how many index entries and rows a session has read.
func reads(t *testing.T, conn *sql.Conn) (total int) {
	t.Helper()
	result, err := conn.QueryContext(t.Context(), "SHOW SESSION STATUS LIKE 'Handler_read%'")
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	for result.Next() {
		var name string
		var n int
		if err := result.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if err := result.Err(); err != nil {
		t.Fatal(err)
	}
	return total
}
