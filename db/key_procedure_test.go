package db

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// keyedZones are zones of all kinds of keys, with networks of several lengths.
func keyedZones() (zones []service.Zone) {
	rules := []service.KeyRule{
		{Kind: service.KeyOpaque},
		{Kind: service.KeyUsername},
		{Kind: service.KeyUsernameAI},
		{Kind: service.KeyUsernameGeneral},
	}
	for _, length := range [][2]int{{32, 64}, {24, 56}, {32, 128}, {16, 46}, {8, 47}, {1, 1}, {31, 97}, {9, 12}} {
		rules = append(rules, service.KeyRule{Kind: service.KeyIP, IPv4Prefix: length[0], IPv6Prefix: length[1]})
	}
	for i, rule := range rules {
		z := zone(int64(i+1), 1_000_000, time.Hour)
		z.Keys = rule
		zones = append(zones, z)
	}
	return zones
}

// FuzzProceduresTakeNormalKeys compares the procedures with the service: a key that the service leaves as it is, they
// take. Of names they refuse ASCII capitals and blanks around, of addresses everything that the service writes
// otherwise or refuses.
func FuzzProceduresTakeNormalKeys(f *testing.F) {
	for _, key := range []string{
		"mallory", "Mallory", "MALLORY", "mallory ", " mallory", "\u00a0mallory", "mallory\u3000", "mallory\u2028",
		"\u1680mallory",
		"mal lory", "straße", "İ", "ı", "ǅ", "\u13a0", "\uab70", "émile", "e\u0301", "\ufb03", "Ａ", "σς", "日本", "bob😀",
		"\u200bbob",
		"\u0345", "_", "%", "a\\", "'", "[a-z]", "$", "^", "hmac:", "hmac:a:b", "erased:0123456789abcdef0123456789abcdef",
		"erased:", "Erased:a",
		"203.0.113.9", "203.0.113.0/24", "203.0.113.009", "203.0.113.9 ", "203.0.113.9/32", "203.0.113.9/24", "203.0.0.0/16",
		"1.2.3", "0x1.2.3.4",
		"128.0.0.0/1", "0.0.0.0/1", "0.0.0.0", "255.255.255.254/31", "2001:db8::1", "2001:DB8::1", "2001:db8::/64",
		"2001:db8::/56",
		"2001:db8:0::/64", "2001:db8::1/128", "2001:db8:0:0:0:0:0:1", "1:0:2:3:4:5:6:7", "1::2:3:4:5:6:7", "0:2:3:4:5:6:7:8",
		"::2:3:4:5:6:7:8",
		"::", "::/64", "::1", "::1.2.3.4", "::102:304", "::ffff:1.2.3.4", "::ffff:0:1.2.3.4", "64:ff9b::cb00:7109",
		"64:ff9b:1::1",
		"64:ff9b::/47", "64:ff9b::/46", "64:ff9b::/64", "64:ff9b:2::/64", "2002:cb00:7109::/48", "2002::/12", "2000::/12",
		"2001::/32", "2001::/12", "8000::/1", "fe80::1%eth0", "fe80::/64", "[::1]", "1.2.3.4:80",
	} {
		f.Add(key)
	}
	zones := keyedZones()
	var databases []*enginetest.Database
	for _, engine := range enginetest.Engines(f) {
		databases = append(databases, engine.Rows(f, zones...))
	}
	f.Fuzz(func(t *testing.T, key string) {
		for _, z := range zones {
			bucket := service.Bucket{ZoneID: z.ID, Key: key}
			normal, err := z.Keys.Normalize(key)
			isNormal := err == nil && normal == key && bucket.Validate() == nil
			if !isNormal && !isSeenBySQL(z.Keys, key) {
				continue
			}
			named, err := z.Keys.Name(key)
			isName := err == nil && named == key && bucket.Validate() == nil
			for i, d := range databases {
				if err := callBySQL(t, d, "CALL check_velocity(?, ?)", z.ID, key); (err == nil) != isNormal {
					t.Errorf("engine %d: check of %+q in a zone of %s: %v", i, key, z.Keys, err)
				}
				if err := callBySQL(t, d, "CALL peek_velocity(?, ?)", z.ID, key); (err == nil) != isName {
					t.Errorf("engine %d: peek of %+q in a zone of %s: %v", i, key, z.Keys, err)
				}
			}
		}
	})
}

// isSeenBySQL says that a key that is not normal can be told from a normal one without Unicode's tables.
func isSeenBySQL(rule service.KeyRule, key string) bool {
	switch {
	case !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) || utf8.RuneCountInString(key) > 255:
		return false // the engine or a constraint has its say
	case rule.Kind == service.KeyOpaque:
		return false
	case rule.Kind == service.KeyIP:
		return true
	}
	return strings.TrimSpace(key) != key || strings.ContainsFunc(key, func(r rune) bool { return 'A' <= r && r <= 'Z' })
}

// callBySQL calls a procedure as a caller by SQL does, and reads its answer to the end.
func callBySQL(t *testing.T, d *enginetest.Database, statement string, args ...any) error {
	t.Helper()
	rows, err := d.SQL.QueryContext(t.Context(), statement, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
		}
	}
	return rows.Err()
}

// TestKeysBySQLAreInTheirZonesForm asks each public procedure that takes a key, before its bucket has a row and when a
// row of a time with another rule is there.
func TestKeysBySQLAreInTheirZonesForm(t *testing.T) {
	t.Parallel()
	bad := map[string]int64{
		"Mallory": 2, "MALLORY": 3, "mallory ": 4, "\u00a0mallory": 2, "203.0.113.09": 5, "2001:db8::1": 5,
		"2001:DB8::/64": 5, "not an address": 5,
	}
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, keyedZones()...)
		for _, hasRow := range []bool{false, true} {
			for key, id := range bad {
				if hasRow {
					enginetest.Exec(t, d.SQL, "INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (?, ?)", id, key)
				}
				for _, statement := range []string{
					"CALL check_velocity(?, ?)",
					"CALL check_velocity_buckets(JSON_ARRAY(JSON_OBJECT('zone_id', ?, 'bucket_key', ?)), NULL)",
					"CALL peek_velocity(?, ?)", "CALL release_bucket(?, ?, 'ann', 'she called')",
				} {
					err := callBySQL(t, d, statement, id, key)
					if !session.IsNumber(err, session.NumberBadArgument) ||
						!strings.Contains(fmt.Sprint(err), "bucket_key must be a") ||
						strings.Contains(fmt.Sprint(err), key) {
						t.Errorf("%s of %q, with a row %v: %v", statement, key, hasRow, err)
					}
				}
			}
			left := "SELECT (SELECT COUNT(*) FROM zone_txn) + (SELECT COUNT(*) FROM zone_audit WHERE subject = 'bucket')" +
				" + (SELECT COUNT(*) FROM zone_bucket_lock)"
			if n := d.Count(t, left); !hasRow && n != 0 || hasRow && n != len(bad) {
				t.Errorf("with a row %v: refused keys left %d rows", hasRow, n)
			}
		}
		// Rows of before are found by their key.
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) "+
			"VALUES (UTC_TIMESTAMP(6), 2, 'Mallory', 0, 0, 1)")
		if found, err := enginetest.Texts(d.SQL, "CALL list_txns(2, 'Mallory', NULL, NULL, 9)"); err != nil ||
			len(found) != 1 {
			t.Errorf("a list of an old key: %v, %v", found, err)
		}
		// The service's own rule is not looked at again, and a key in the place of an erased one is none of a check.
		if err := callBySQL(t, d, "CALL check_velocity_by_rule(2, 'Mallory', 'username', TRUE)"); err != nil {
			t.Errorf("a key that the service folded: %v", err)
		}
		erased := service.NewErasedKey(service.KeyClear)
		if err := callBySQL(t, d, "CALL release_bucket(5, ?, 'ann', 'she called')", erased); err != nil {
			t.Errorf("release of an erased key: %v", err)
		}
		if err := callBySQL(t, d, "CALL check_velocity(5, ?)", erased); !session.IsNumber(err, session.NumberBadArgument) {
			t.Errorf("check of an erased key: %v", err)
		}
	})
}
