package migrations_test

import (
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"velocityd/tools/enginetest"
)

// targetZones makes a zone of each kind of keys: 1 opaque, 2 of user names, 3 of
// addresses, 4 of networks; 5 of user names and 6 of addresses that are kept as pseudonyms.
func targetZones(t *testing.T, d *enginetest.Database) {
	t.Helper()
	enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`, key_kind, ipv4_prefix, ipv6_prefix) VALUES "+
		"(1, 5, 60, 'opaque', 32, 64), (2, 5, 60, 'username', 32, 64), (3, 5, 60, 'ip', 32, 128), (4, 5, 60, 'ip', 24, 48)")
	enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`, key_kind, key_form) VALUES "+
		"(5, 5, 60, 'username', 'hmac'), (6, 5, 60, 'ip', 'hmac'), (7, 5, 60, 'username_general_ci', 'clear')")
}

// isBadInput says that a trigger refused a row.
func isBadInput(err error) bool {
	var engine *mysql.MySQLError
	return errors.As(err, &engine) && engine.Number == 45400
}

// wantRefusal wants error 45400 with words in it.
func wantRefusal(t *testing.T, what string, err error, words string) {
	t.Helper()
	if !isBadInput(err) || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: got %v, want 45400 with %q", what, err, words)
	}
}

// aim is the target of an override in a zone: a key or a prefix.
type aim struct {
	zoneID      int
	key, prefix string // empty: NULL
}

// args are the values of zone_id, bucket_key, prefix and once more zone_id.
func (a aim) args() []any {
	null := func(text string) sql.NullString { return sql.NullString{String: text, Valid: text != ""} }
	return []any{a.zoneID, null(a.key), null(a.prefix), a.zoneID}
}

// mac ends a pseudonym.
const mac = "44q2vkckJ9cmgjH-QNXbvXrATOfUrBBsQIFwpi0LpQk"

// uselessTargets are targets that would match no bucket, each with its error.
func uselessTargets() map[aim]string {
	return map[aim]string{
		{1, "", "203.0.113.0/24"}:   "prefix needs a zone whose key_kind is ip: this one is opaque",
		{2, "", "2001:db8::/32"}:    "this one is username",
		{3, "", "203.0.113.7/24"}:   "write 203.0.113.0/24",
		{3, "", "2001:DB8::1/64"}:   "write 2001:db8::/64",
		{3, "", "2001:db8::ff/121"}: "write 2001:db8::80/121",
		{3, "", "::1.2.3.4/112"}:    "write ::102:0/112",
		{
			3, "",
			"64:ff9b::/96",
		}: "prefix holds addresses that count as the IPv4 addresses inside them: write the IPv4 network",
		{4, "", "203.0.113.0/25"}:    "prefix must not be longer than /24",
		{4, "", "2001:db8::/49"}:     "prefix must not be longer than /48",
		{2, "Bob", ""}:               "lower case, no spaces around",
		{7, "Bob", ""}:               "lower case, no spaces around",
		{7, "", "203.0.113.0/24"}:    "this one is username_general_ci",
		{2, " bob", ""}:              "lower case, no spaces around",
		{2, "bob ", ""}:              "lower case, no spaces around",
		{3, "bob", ""}:               "must be an IPv4 address or an IPv6 address: lower case",
		{3, "010.1.1.1", ""}:         "must be an IPv4 address or an IPv6 address: lower case",
		{3, "2001:DB8::1", ""}:       "must be an IPv4 address",
		{3, "2001:db8:0::1", ""}:     "must be an IPv4 address",
		{3, "::1.2.3.4", ""}:         "must be an IPv4 address",
		{3, "::ffff:1.2.3.4", ""}:    "must be an IPv4 address",
		{3, "::ffff:102:304", ""}:    "must be an IPv4 address",
		{3, "::102:304", ""}:         "must be an IPv4 address",
		{3, "64:ff9b::102:304", ""}:  "must be an IPv4 address",
		{3, "2002:102:304::1", ""}:   "must be an IPv4 address",
		{3, "2001::1", ""}:           "must be an IPv4 address",
		{4, "2002:102:304::/48", ""}: "must be an IPv4 network of /24",
		{4, "64:ff9b::/48", ""}:      "must be an IPv4 network of /24",
		{4, "64:ff9b:1::/48", ""}:    "must be an IPv4 network of /24",
		{3, "10.1.1.1/32", ""}:       "must be an IPv4 address",
		{3, "10.1.1.0/24", ""}:       "must be an IPv4 address",
		{3, "10.1.1.1 ", ""}:         "must be an IPv4 address",
		{3, "fe80::1%eth0", ""}:      "must be an IPv4 address",
		{
			4, "203.0.113.9",
			"",
		}: "must be an IPv4 network of /24 or an IPv6 network of /48: lower case, shortest form, no host bits",
		{4, "203.0.113.9/24", ""}:     "must be an IPv4 network of /24",
		{4, "203.0.113.0/25", ""}:     "must be an IPv4 network of /24",
		{4, "203.0.112.0/23", ""}:     "must be an IPv4 network of /24",
		{4, "203.0.113.0/024", ""}:    "must be an IPv4 network of /24",
		{4, "203.0.113.0/24/24", ""}:  "must be an IPv4 network of /24",
		{4, "2001:db8::1", ""}:        "must be an IPv4 network of /24",
		{4, "2001:DB8::/48", ""}:      "must be an IPv4 network of /24",
		{5, "bob", ""}:                "the key_form of this zone is hmac: bucket_key must be a pseudonym",
		{5, "hmac:K1:" + mac, ""}:     "bucket_key must be a pseudonym",
		{5, "hmac:k1:" + mac[1:], ""}: "bucket_key must be a pseudonym",
		{6, "203.0.113.9", ""}:        "bucket_key must be a pseudonym",
		{6, "", "203.0.113.0/24"}:     "prefix needs a zone whose key_form is clear",
		{6, "", "203.0.113.9/32"}:     "prefix needs a zone whose key_form is clear",
	}
}

func TestOverridesThatMatchNothingAreRefusedInWords(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		targetZones(t, d)
		for _, zone := range []string{
			"1, 'k'", "2, 'k'", "3, '192.0.2.1'", "4, '192.0.2.0/24'", "7, 'k'", "5, 'hmac:k1:" + mac + "'",
			"6, 'hmac:2026-11:" + mac + "'",
		} {
			enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, bucket_key, action) VALUES ("+zone+", 'deny')")
		}
		for mode, setting := range modes() {
			conn := session(t, d, setting)
			for target, words := range uselessTargets() {
				for _, statement := range []string{
					"INSERT INTO zone_override (zone_id, bucket_key, prefix, action) VALUES (?, ?, ?, 'deny')",
					"UPDATE zone_override SET zone_id = ?, bucket_key = ?, prefix = ? WHERE zone_id = ?",
				} {
					args := target.args()[:strings.Count(statement, "?")]
					_, err := conn.ExecContext(t.Context(), statement, args...)
					wantRefusal(t, fmt.Sprint(mode, ": ", statement[:6], " ", args), err, words)
				}
			}
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_override"); n != 7 {
			t.Errorf("%d overrides, want the 7 good ones", n)
		}
	})
}

func TestOverridesFittingBucketsAreTakenUnchanged(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		targetZones(t, d)
		for _, target := range []string{
			"1, 'Bob ', NULL", "1, '203.0.113.7/24', NULL", "1, 'ß/Ä', NULL",
			"2, 'bob', NULL", "2, 'été a', NULL", "2, 'Ꭰ', NULL", "2, '1_42', NULL", // Cherokee is normal in capitals
			"3, '10.1.1.1', NULL", "3, '2001:db8::1', NULL", "3, '::', NULL", "3, '::1', NULL", "3, '::2:304', NULL",
			"3, '64:ff9b:1::5', NULL", "4, '64:ff9b:1::5', NULL", "4, NULL, '64:ff9b:1::/49'",
			"3, NULL, '10.0.0.0/8'", "3, NULL, '2001:db8::/127'", "3, NULL, '::/0'",
			"4, '203.0.113.0/24', NULL", "4, '2001:db8::/48', NULL", "4, '::/48', NULL", "4, NULL, '203.0.112.0/23'",
		} {
			enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, bucket_key, prefix, action) VALUES ("+target+
				", 'deny')")
			if n := d.Count(
				t, "SELECT COUNT(*) FROM zone_override WHERE (zone_id, COALESCE(bucket_key, 'NULL'), COALESCE(prefix, 'NULL')) = ("+
					strings.ReplaceAll(target, "NULL", "'NULL'")+")"); n != 1 {
				t.Errorf("%s: stored otherwise", target)
			}
		}
	})
}

func TestPrefixOfBucketLengthIsItsKey(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		targetZones(t, d)
		for target, want := range map[string]string{
			"3, '203.0.113.9/32'":              "203.0.113.9",
			"3, '::ffff:203.0.113.9/128'":      "203.0.113.9",
			"3, '2001:DB8:0::1/128'":           "2001:db8::1",
			"3, '::0.2.3.4/128'":               "::2:304",
			"4, '203.0.113.0/24'":              "203.0.113.0/24",
			"4, '2001:DB8:0:0:0:0:0:0/48'":     "2001:db8::/48",
			"4, '0:0:0:0:0:ffff:10.1.1.0/120'": "10.1.1.0/24",
		} {
			for _, statement := range []string{
				"INSERT INTO zone_override (zone_id, prefix, network, action) VALUES (" + target + ", 'forged', 'deny')",
				"UPDATE zone_override SET bucket_key = NULL, prefix = " + strings.SplitN(target, ", ", 2)[1],
			} {
				enginetest.Exec(t, d.SQL, statement)
				got := rows(t, d, "SELECT bucket_key, prefix, network FROM zone_override")
				if len(got) != 1 || got[0] != "bucket_key="+want+" | prefix is NULL | network is NULL" {
					t.Errorf("%s: got %q, want the key %s", statement, got, want)
				}
			}
			enginetest.Exec(t, d.SQL, "DELETE FROM zone_override")
		}
		if got := kinds(t, d); got != "3, 4" {
			t.Errorf("keeps %q, want no prefix length", got)
		}
		// So a bucket has one override, however it is written.
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (3, '203.0.113.9', 'deny')")
		if _, err := d.SQL.Exec(
			"INSERT INTO zone_override (zone_id, prefix, action) VALUES (3, '203.0.113.9/32', 'allow')"); err == nil {
			t.Error("one bucket has two overrides")
		}
	})
}

// TestOverridesThatFittedOnceCanBeRestored changes a zone under its overrides, and puts
// them back as mysqldump and mariadb-dump do.
func TestOverridesThatFittedOnceCanBeRestored(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		targetZones(t, d)
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (id, zone_id, bucket_key, prefix, action) VALUES (1, 3, "+
			"'10.1.1.1', NULL, 'deny'), (2, 3, NULL, '10.0.0.0/30', 'deny'), (3, 1, 'Bob', NULL, 'deny'), (4, 4, NULL, "+
			"'10.0.0.0/23', 'deny')")
		enginetest.Exec(t, d.SQL, "UPDATE zone_master SET key_kind = 'username' WHERE id IN (1, 3)")
		enginetest.Exec(t, d.SQL, "UPDATE zone_master SET ipv4_prefix = 23 WHERE id = 4")
		const query = "SELECT id, zone_id, bucket_key, prefix, network, reason FROM zone_override ORDER BY id"
		want := rows(t, d, query)
		// Columns beside the target can be changed all the same.
		enginetest.Exec(t, d.SQL, "UPDATE zone_override SET reason = 'kept', expires_at = '2030-01-01'")
		enginetest.Exec(t, d.SQL, "UPDATE zone_override SET reason = ''")
		enginetest.Exec(t, d.SQL, "DELETE FROM zone_override")
		conn := session(t, d, "NO_AUTO_VALUE_ON_ZERO")
		enginetest.Exec(t, conn, "SET foreign_key_checks = 0")
		enginetest.Exec(t, conn, "INSERT INTO zone_override (id, zone_id, bucket_key, prefix, network, action) VALUES "+
			"(1, 3, '10.1.1.1', NULL, NULL, 'deny'), (2, 3, NULL, '10.0.0.0/30', '4:000010100000000000000000000000', 'deny'), "+
			"(3, 1, 'Bob', NULL, NULL, 'deny'), (4, 4, NULL, '10.0.0.0/23', '4:00001010000000000000000', 'deny')")
		if got := rows(t, d, query); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("restored %q, want %q", got, want)
		}
	})
}

// TestAddressesAreWrittenAsTheServiceWritesThem compares address_text with net/netip, by
// which the service writes keys.
func TestAddressesAreWrittenAsTheServiceWritesThem(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		random := rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			octets := make([]byte, 4+12*random.IntN(2))
			for i := 0; i < len(octets); i += 2 {
				if random.IntN(2) == 0 { // groups of zeros are written in several ways
					octets[i], octets[i+1] = byte(random.IntN(3)*random.IntN(128)), byte(random.IntN(256))
				}
			}
			addr, _ := netip.AddrFromSlice(octets)
			if addr.Is4In6() {
				continue // never written: it is folded to IPv4 before
			}
			var got string
			if err := d.SQL.QueryRow("SELECT address_text(UNHEX(?))", hex.EncodeToString(octets)).Scan(&got); err != nil ||
				got != addr.String() {
				t.Fatalf("%x is written %q, %v, want %s", octets, got, err, addr)
			}
		}
	})
}

// TestConstraintsSayTheRuleInTheirNames takes the sentence that an engine shows to whom it
// refuses a row.
func TestConstraintsSayTheRuleInTheirNames(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		targetZones(t, d)
		for statement, want := range map[string]string{
			"UPDATE zone_master SET rate = 1000001":                             "rate must be 0 to 1000000",
			"INSERT INTO zone_master (id, rate, `window`) VALUES (9, NULL, 60)": "rate must be 0 to 1000000",
			"UPDATE zone_master SET `window` = 0": "window must be 1 to 31622400 " +
				"seconds",
			"UPDATE zone_master SET reserve_ttl = 61": "reserve_ttl must be 1 second " +
				"to the window, or NULL",
			"UPDATE zone_master SET ipv4_prefix = 33": "ipv4_prefix must be 1 to 32",
			"INSERT INTO zone_override (zone_id, action) VALUES (1, 'deny')": "give either bucket_key or " +
				"prefix",
			"INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (1, 'a', 'limit')": "limit needs rate 0 to " +
				"1000000, other actions have none",
			"INSERT INTO zone_override (zone_id, bucket_key, action, rate, `window`) VALUES (1, 'a', 'limit', 1, 0)": "window " +
				"must be 1 to 31622400 or NULL, and have action limit",
			"INSERT INTO zone_override (zone_id, bucket_key, action, rate, period_anchor) VALUES (1, 'a', 'limit', 1, 32)": "" +
				"period_anchor must be 1 to 31 or NULL, and have limit, no window",
			"INSERT INTO zone_override (zone_id, bucket_key, action, rate, `window`, period_anchor) VALUES (1, 'a', 'limit', " +
				"1, 60, 3)": "" +
				"period_anchor must be 1 to 31 or NULL, and have limit, no window",
			"UPDATE zone_master SET period = 'day', `window` = 3600": "window of a period must be its length, 2678400 of a month",
			"UPDATE zone_master SET period_offset = 841":             "period_offset must be -840 to 840 minutes",
			"UPDATE zone_master SET period_anchor = 32":              "period_anchor must be 1 to 31",
			"INSERT INTO zone_override (zone_id, bucket_key, action, expires_at) VALUES (1, 'a', 'deny', '2200-01-01')": "" +
				"expires_at must be in the years 1970 to 2199",
		} {
			_, err := d.SQL.Exec(statement)
			var engine *mysql.MySQLError
			if !errors.As(err, &engine) || engine.Number != 3819 && engine.Number != 4025 ||
				!strings.Contains(engine.Message, want) {
				t.Errorf("%s: got %v, want %q", statement, err, want)
			}
		}
		// An ENUM is read before any CHECK or trigger, unless the session is careless.
		if _, err := session(t, d, "").ExecContext(t.Context(), "UPDATE zone_master SET mode = 'shadov'"); err == nil ||
			!strings.Contains(err.Error(), "mode must be enforce, shadow or off") {
			t.Errorf("mode 'shadov': %v", err)
		}
	})
}
