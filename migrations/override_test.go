package migrations_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"velocityd/tools/enginetest"
)

// addressZones makes zones 1 and 2, whose keys are addresses.
func addressZones(t *testing.T, d *enginetest.Database) {
	t.Helper()
	enginetest.Exec(
		t, d.SQL, "INSERT INTO zone_master (id, rate, `window`, key_kind) VALUES (1, 5, 60, 'ip'), (2, 5, 60, 'ip')")
}

func TestBadOverridesAreRefusedWhoeverWritesThem(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		addressZones(t, d)
		for mode, setting := range modes() {
			conn := session(t, d, setting)
			for name, bad := range map[string]string{
				"neither key nor prefix":  "1, NULL, NULL, 'deny', NULL, NULL, NULL",
				"both key and prefix":     "1, '10.0.0.1', '10.0.0.0/8', 'deny', NULL, NULL, NULL",
				"key empty":               "1, '', NULL, 'deny', NULL, NULL, NULL",
				"key with a tab":          "1, 'a\\tb', NULL, 'deny', NULL, NULL, NULL",
				"prefix empty":            "1, NULL, '', 'deny', NULL, NULL, NULL",
				"action empty":            "1, '10.0.0.1', NULL, '', NULL, NULL, NULL",
				"action unknown":          "1, '10.0.0.1', NULL, 'block', NULL, NULL, NULL",
				"limit without a rate":    "1, '10.0.0.1', NULL, 'limit', NULL, 60, NULL",
				"limit without either":    "1, '10.0.0.1', NULL, 'limit', NULL, NULL, NULL",
				"limit of a rate below 0": "1, '10.0.0.1', NULL, 'limit', -1, 60, NULL",
				"limit of a large rate":   "1, '10.0.0.1', NULL, 'limit', 1000001, 60, NULL",
				"limit of no window":      "1, '10.0.0.1', NULL, 'limit', 5, 0, NULL",
				"limit of a long window":  "1, '10.0.0.1', NULL, 'limit', 5, 31622401, NULL",
				"limit of a word":         "1, '10.0.0.1', NULL, 'limit', 5, 'minute', NULL",
				"allow with a rate":       "1, '10.0.0.1', NULL, 'allow', 5, NULL, NULL",
				"deny with a window":      "1, '10.0.0.1', NULL, 'deny', NULL, 60, NULL",
				"expiry zero":             "1, '10.0.0.1', NULL, 'deny', NULL, NULL, '0000-00-00 00:00:00'",
				"expiry of 1969":          "1, '10.0.0.1', NULL, 'deny', NULL, NULL, '1969-12-31 23:59:59'",
				"expiry of 2200":          "1, '10.0.0.1', NULL, 'deny', NULL, NULL, '2200-01-01'",
				"expiry a word":           "1, '10.0.0.1', NULL, 'deny', NULL, NULL, 'tomorrow'",
				"zone unknown":            "3, '10.0.0.1', NULL, 'deny', NULL, NULL, NULL",
				"zone NULL":               "NULL, '10.0.0.1', NULL, 'deny', NULL, NULL, NULL",
			} {
				for _, verb := range []string{"INSERT", "REPLACE"} {
					_, err := conn.ExecContext(t.Context(), verb+" INTO zone_override "+
						"(zone_id, bucket_key, prefix, action, rate, `window`, expires_at) VALUES "+
						"(1, '10.0.0.9', NULL, 'deny', NULL, NULL, NULL), ("+bad+")")
					if n := d.Count(t, "SELECT COUNT(*) FROM zone_override"); err == nil || n != 0 {
						t.Errorf("%s, %s: %s: %v, left %d", mode, name, verb, err, n)
						enginetest.Exec(t, conn, "DELETE FROM zone_override")
					}
				}
			}
		}
		for _, line := range rows(t, d, "SELECT 1 AS n FROM zone_override_prefix_length UNION ALL "+
			"SELECT 2 FROM zone_audit WHERE subject = 'override' AND action = 'insert' AND override_id NOT IN "+
			"(SELECT override_id FROM zone_audit WHERE subject = 'override' AND action = 'delete')") {
			t.Errorf("a refused statement left something behind: %s", line)
		}
	})
}

func TestPrefixesAreBroughtIntoOneForm(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		addressZones(t, d)
		enginetest.Exec(t, d.SQL, "UPDATE zone_master SET ipv6_prefix = 128")
		for mode, setting := range modes() {
			conn := session(t, d, setting)
			for given, want := range map[string]string{
				"0.0.0.0/0":                   "prefix=0.0.0.0/0 | network=4:",
				"::/0":                        "prefix=::/0 | network=6:",
				"203.0.113.0/24":              "prefix=203.0.113.0/24 | network=4:110010110000000001110001",
				"10.0.0.0/8":                  "prefix=10.0.0.0/8 | network=4:00001010",
				"255.255.255.254/31":          "prefix=255.255.255.254/31 | network=4:" + strings.Repeat("1", 31),
				"::ffff:203.0.113.0/120":      "prefix=203.0.113.0/24 | network=4:110010110000000001110001",
				"::FFFF:0:0/96":               "prefix=0.0.0.0/0 | network=4:",
				"::0.2.0.0/112":               "prefix=::2:0/112 | network=6:" + strings.Repeat("0", 96) + "0000000000000010",
				"2001:DB8::/32":               "prefix=2001:db8::/32 | network=6:" + "00100000000000010000110110111000",
				"2001:0db8:0000:0:0:0:0:0/32": "prefix=2001:db8::/32 | network=6:" + "00100000000000010000110110111000",
				"8000::/1":                    "prefix=8000::/1 | network=6:1",
				"::2/127":                     "prefix=::2/127 | network=6:" + strings.Repeat("0", 126) + "1",
				"0:0:0:0:0:0:0:0/64":          "prefix=::/64 | network=6:" + strings.Repeat("0", 64),
				"0:0:0:0:8000:0:0:0/65":       "prefix=::8000:0:0:0/65 | network=6:" + strings.Repeat("0", 64) + "1",
				"ffff:ffff:ffff:ffff::/64":    "prefix=ffff:ffff:ffff:ffff::/64 | network=6:" + strings.Repeat("1", 64),
				"64:FF9B:1:0:0:0:192.0.2.34/127": "prefix=64:ff9b:1::c000:222/127 | network=6:" +
					fmt.Sprintf("%016b%016b%016b%048b%031b", 0x64, 0xff9b, 1, 0, 0xc0000222>>1),
				"64:ff9b::/47": "prefix=64:ff9b::/47 | network=6:" + fmt.Sprintf("%016b%016b%015b", 0x64, 0xff9b, 0),
				"2001::/31":    "prefix=2001::/31 | network=6:0010000000000001000000000000000",
				"2002::/15":    "prefix=2002::/15 | network=6:001000000000001",
			} {
				for _, statement := range []string{
					"INSERT INTO zone_override (zone_id, prefix, network, action) VALUES (1, ?, '4:forged', 'deny')",
					"UPDATE zone_override SET network = 'forged', prefix = ?",
				} {
					enginetest.Exec(t, conn, statement, given)
					if got := rows(t, d, "SELECT prefix, network FROM zone_override"); len(got) != 1 || got[0] != want {
						t.Errorf("%s: %s: got %q, want %q", mode, given, got, want)
					}
				}
				enginetest.Exec(t, conn, "DELETE FROM zone_override")
			}
		}
	})
}

func TestWhatIsNoNetworkIsRefused(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		addressZones(t, d)
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, prefix, action) VALUES (1, '192.0.2.0/24', 'deny')")
		for mode, setting := range modes() {
			conn := session(t, d, setting)
			for _, bad := range []string{
				"", "/", "/8", "10.0.0.0", "2001:db8::", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/08", "10.0.0.0/8/8",
				"10.0.0.0/8.5", "10.0.0.0/a", "10.0.0.0/999", "10.0.0.0/1000", "10.0.0.0/4294967304", "10.0.0/8", "10/8",
				"10.0.0.0.0/8",
				"256.0.0.0/8", " 10.0.0.0/8", "10.0.0.0 /8", "10.0.0.0/8\n\n", "10.0.0.0/8\n", "192.0.2.0/24 ", "192.0.2.0/24\n",
				"2001:db8::/129", "2001:db8:::/32", "fe80::%eth0/64",
				"::g/128", "localhost/8", "*", "%", "*/8",
				// Bits beyond the length.
				"203.0.113.7/24", "10.0.0.1/31", "128.0.0.0/0", "2001:db8::1/64", "::1/127", "::1/0", "0:0:0:1::/63",
				"::1:0:0:0/64",
				// IPv4 addresses written as IPv6, with bits beyond the length or of both families.
				"::ffff:1.2.3.4/96", "::ffff:203.0.113.1/120", "::ffff:0:0/95", "::ffff:0:0/129",
				// Networks whose addresses count as IPv4 ones.
				"64:ff9b::/96", "64:ff9b::/48", "64:ff9b::203.0.113.0/120", "::203.0.113.0/120", "::ffff:0:203.0.113.0/120",
				"2002::/16", "2002:cb00:7109::/48", "2002:cb00:7109:1::/64", "2001::/32", "2001:0:5ef5:79fb::/64",
			} {
				for _, statement := range []string{
					"INSERT INTO zone_override (zone_id, prefix, action) VALUES (1, ?, 'allow')",
					"REPLACE INTO zone_override (zone_id, prefix, action) VALUES (1, ?, 'allow')",
					"UPDATE zone_override SET prefix = ?",
				} {
					_, err := conn.ExecContext(t.Context(), statement, bad)
					got := rows(t, d, "SELECT prefix, action FROM zone_override")
					if !isBadInput(err) || len(got) != 1 || got[0] != "prefix=192.0.2.0/24 | action=deny" {
						t.Fatalf("%s: %.10s of %q: %v, left %q", mode, statement, bad, err, got)
					}
				}
			}
			// In another spelling it is the same network.
			_, err := conn.ExecContext(
				t.Context(), "INSERT INTO zone_override (zone_id, prefix, action) VALUES (1, '192.0.2.000/24', 'allow')")
			if n := d.Count(t, "SELECT COUNT(*) FROM zone_override"); n != 1 {
				t.Fatalf("%s: one network has %d overrides, %v", mode, n, err)
			}
		}
	})
}

// kinds are the working rows of the schema about the overrides of all zones.
func kinds(t *testing.T, d *enginetest.Database) string {
	t.Helper()
	var parts []string
	for _, line := range rows(t, d, "SELECT CONCAT(zone_id, ': ', family, '/', prefix_length) AS k "+
		"FROM zone_override_prefix_length ORDER BY zone_id, family, prefix_length") {
		parts = append(parts, strings.TrimPrefix(line, "k="))
	}
	for _, line := range rows(t, d, "SELECT id FROM zone_master WHERE overridden ORDER BY id") {
		parts = append(parts, strings.TrimPrefix(line, "id="))
	}
	return strings.Join(parts, ", ")
}

func TestKindsOfOverridesAreKept(t *testing.T) {
	t.Parallel()
	const into = " INTO zone_override (zone_id, bucket_key, prefix, action) VALUES "
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		addressZones(t, d)
		conn := session(t, d, "STRICT_ALL_TABLES")
		for i, step := range []struct{ statement, want string }{
			{"INSERT" + into + "(1, '10.1.1.1', NULL, 'deny')", "1"},
			{
				"INSERT" + into + "(1, NULL, '10.0.0.0/8', 'deny'), (1, NULL, '11.0.0.0/8', 'deny'), (1, NULL, '::/0', 'deny'), " +
					"(2, '10.1.1.2', NULL, 'allow')",
				"1: 4/8, 1: 6/0, 1, 2",
			},
			{"UPDATE zone_override SET prefix = '10.0.0.0/16' WHERE prefix = '10.0.0.0/8'", "1: 4/8, 1: 4/16, 1: 6/0, 1, 2"},
			{
				"UPDATE zone_override SET prefix = 'fe80::/16' WHERE prefix = '11.0.0.0/8'",
				"1: 4/8, 1: 4/16, 1: 6/0, 1: 6/16, 1, 2",
			},
			{
				"UPDATE zone_override SET prefix = NULL, bucket_key = '10.1.1.3' WHERE prefix = '::/0'",
				"1: 4/8, 1: 4/16, 1: 6/0, 1: 6/16, 1, 2",
			},
			{"UPDATE zone_override SET action = 'allow', reason = 'all'", "1: 4/8, 1: 4/16, 1: 6/0, 1: 6/16, 1, 2"},
			{
				"REPLACE" + into + "(1, '10.1.1.3', NULL, 'deny'), (1, NULL, '10.0.0.0/16', 'deny')",
				"1: 4/8, 1: 4/16, 1: 6/0, 1: 6/16, 1, 2",
			},
			{
				"INSERT" + into + "(1, '10.1.1.3', NULL, 'deny') ON DUPLICATE KEY UPDATE action = 'allow'",
				"1: 4/8, 1: 4/16, 1: 6/0, 1: 6/16, 1, 2",
			},
			{
				"INSERT" + into + "(1, NULL, '10.0.0.0/16', 'deny') ON DUPLICATE KEY UPDATE prefix = '10.0.0.0/17'",
				"1: 4/8, 1: 4/16, 1: 4/17, 1: 6/0, 1: 6/16, 1, 2",
			},
			{
				"INSERT IGNORE" + into + "(1, '10.1.1.3', NULL, 'deny'), (1, '10.1.1.4', NULL, 'deny')",
				"1: 4/8, 1: 4/16, 1: 4/17, 1: 6/0, 1: 6/16, 1, 2",
			},
			{"DELETE FROM zone_override WHERE bucket_key = '10.1.1.4'", "1: 4/8, 1: 4/16, 1: 4/17, 1: 6/0, 1: 6/16, 1, 2"},
			{"DELETE FROM zone_override WHERE prefix IS NOT NULL", "1: 4/8, 1: 4/16, 1: 4/17, 1: 6/0, 1: 6/16, 1, 2"},
			{"START TRANSACTION", "1: 4/8, 1: 4/16, 1: 4/17, 1: 6/0, 1: 6/16, 1, 2"},
			{"DELETE FROM zone_override", "1: 4/8, 1: 4/16, 1: 4/17, 1: 6/0, 1: 6/16, 1, 2"},
			{"INSERT" + into + "(2, NULL, '10.0.0.0/8', 'deny')", "1: 4/8, 1: 4/16, 1: 4/17, 1: 6/0, 1: 6/16, 1, 2"},
			{"ROLLBACK", "1: 4/8, 1: 4/16, 1: 4/17, 1: 6/0, 1: 6/16, 1, 2"},
			{"DELETE FROM zone_override WHERE zone_id = 2", "1: 4/8, 1: 4/16, 1: 4/17, 1: 6/0, 1: 6/16, 1, 2"},
			{"DELETE FROM zone_override", "1: 4/8, 1: 4/16, 1: 4/17, 1: 6/0, 1: 6/16, 1, 2"},
		} {
			enginetest.Exec(t, conn, step.statement)
			if got := kinds(t, d); got != step.want {
				t.Errorf("step %d, %s: keeps %q, want %q", i, step.statement, got, step.want)
			}
		}
		if _, err := conn.ExecContext(t.Context(), "INSERT"+into+"(1, '10.1.1.3', NULL, 'deny') ON DUPLICATE KEY UPDATE "+
			"zone_id = 2"); err != nil {
			t.Error(err) // nothing is left that it could move
		}
		if _, err := conn.ExecContext(t.Context(), "UPDATE zone_override SET zone_id = 2"); err == nil {
			t.Error("an override has left its zone")
		}
		// The first override of a zone is no change of the zone.
		if got := rows(t, d, "SELECT DISTINCT revision FROM zone_master"); !slices.Equal(got, []string{"revision=1"}) {
			t.Errorf("got %q, want revision 1", got)
		}
	})
}

func TestAZoneWithOverridesIsNotDeleted(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		addressZones(t, d)
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, prefix, action) VALUES (2, '10.0.0.0/8', 'deny')")
		state := func() string {
			return fmt.Sprint(rows(t, d, "SELECT * FROM zone_master ORDER BY id"), rows(t, d, "SELECT * FROM zone_override"),
				rows(t, d, "SELECT * FROM zone_audit"), kinds(t, d))
		}
		want := state()
		for mode, setting := range modes() {
			conn := session(t, d, setting)
			for _, statement := range []string{
				"DELETE FROM zone_master", "DELETE FROM zone_master WHERE id = 2", "TRUNCATE TABLE zone_master",
			} {
				if _, err := conn.ExecContext(t.Context(), statement); err == nil {
					t.Errorf("%s: %s: carried out", mode, statement)
				}
				if got := state(); got != want {
					t.Fatalf("%s: %s: left\n%s, want\n%s", mode, statement, got, want)
				}
			}
		}
		enginetest.Exec(t, d.SQL, "DELETE FROM zone_override")
		enginetest.Exec(t, d.SQL, "DELETE FROM zone_master")
	})
}

// TestAReplacedZoneKeepsItsOverrides takes either way that engines go: MariaDB
// refuses to replace the row, MySQL does it.
func TestAReplacedZoneKeepsItsOverrides(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		addressZones(t, d)
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, prefix, action) VALUES (2, '10.0.0.0/8', 'deny')")
		_, _ = d.SQL.Exec("REPLACE INTO zone_master (id, rate, `window`, key_kind) VALUES (1, 9, 9, 'ip'), (2, 9, 9, 'ip')")
		if got := kinds(t, d); got != "2: 4/8, 2" {
			t.Errorf("keeps %q", got)
		}
	})
}

// A transaction that began before the zone's rule was what it is now reads the zone as it was.
func TestOverrideMustFitCurrentZone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		enginetest.Exec(
			t, d.SQL, "INSERT INTO zone_master (id, rate, `window`, key_kind) VALUES (1, 5, 60, 'ip'), (2, 5, 60, 'ip')")
		enginetest.Exec(t, d.SQL,
			"INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (1, '10.0.0.1', 'deny'), (2, '10.0.0.1', 'deny')")
		conn := session(t, d, "")
		enginetest.Exec(t, conn, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
		enginetest.Exec(t, conn, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
		enginetest.Exec(t, d.SQL, "UPDATE zone_master SET key_kind = 'opaque' WHERE id = 1")
		enginetest.Exec(t, d.SQL, "UPDATE zone_master SET key_form = 'hmac' WHERE id = 2")
		for _, statement := range []string{
			"INSERT INTO zone_override (zone_id, prefix, action) VALUES (1, '10.0.0.0/8', 'deny')",
			"INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (2, '10.0.0.2', 'deny')",
		} {
			_, err := conn.ExecContext(t.Context(), statement)
			var conflict *mysql.MySQLError
			if !isBadInput(err) && (!errors.As(err, &conflict) || conflict.Number != 1020) { // which MariaDB 11.8 answers
				t.Errorf("%s: %v", statement, err)
			}
		}
		enginetest.Exec(t, conn, "COMMIT")
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_override"); n != 2 {
			t.Errorf("%d overrides, want 2", n)
		}
	})
}

// TestOverridesOfOneTransactionAreSeenByAnother lets a session of the default
// isolation, which has read before a colleague adds an override, take away the
// last one that it knows of, and edit the zone.
func TestOverridesOfOneTransactionAreSeenByAnother(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		for _, edit := range []string{
			"DELETE FROM zone_override WHERE bucket_key = '10.1.1.1'", "UPDATE zone_master SET rate = 9 WHERE id = 1",
			"UPDATE zone_override SET zone_id = 2 WHERE bucket_key = '10.1.1.1'",
		} {
			d := engine.Database(t)
			addressZones(t, d)
			if !strings.HasPrefix(edit, "UPDATE zone_master") {
				enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (1, '10.1.1.1', 'deny')")
			}
			conn := session(t, d, "STRICT_ALL_TABLES")
			enginetest.Exec(t, conn, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
			enginetest.Exec(t, conn, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
			enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, prefix, action) VALUES (1, '10.0.0.0/8', 'deny')")
			// MariaDB may refuse to edit a row that has changed since its snapshot.
			if _, err := conn.ExecContext(t.Context(), edit); err != nil {
				t.Logf("%s: %v", edit, err)
				enginetest.Exec(t, conn, "ROLLBACK")
			} else {
				enginetest.Exec(t, conn, "COMMIT")
			}
			if n := d.Count(t, "SELECT overridden FROM zone_master WHERE id = 1"); n != 1 {
				t.Errorf("%s: the colleague's override is not looked for any more", edit)
			}
		}
	})
}

// TestTheLastOverrideGoesWhileAnotherComes has a session take away the only
// override that is committed, while another one adds one.
func TestTheLastOverrideGoesWhileAnotherComes(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		for _, level := range []string{"READ COMMITTED", "REPEATABLE READ"} {
			d := engine.Database(t)
			addressZones(t, d)
			enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (1, '10.1.1.1', 'deny')")
			comes, goes := session(t, d, "STRICT_ALL_TABLES"), session(t, d, "STRICT_ALL_TABLES")
			enginetest.Exec(t, goes, "SET SESSION TRANSACTION ISOLATION LEVEL "+level)
			enginetest.Exec(t, comes, "START TRANSACTION")
			enginetest.Exec(t, comes, "INSERT INTO zone_override (zone_id, prefix, action) VALUES (1, '10.0.0.0/8', 'deny')")
			// Does not wait.
			enginetest.Exec(t, goes, "DELETE FROM zone_override WHERE zone_id = 1 AND bucket_key = '10.1.1.1'")
			enginetest.Exec(t, comes, "COMMIT")
			if n := d.Count(
				t, "SELECT overridden = EXISTS (SELECT 1 FROM zone_override) FROM zone_master WHERE id = 1"); n != 1 {
				t.Errorf("%s: the override that came is not looked for", level)
			}
		}
	})
}
