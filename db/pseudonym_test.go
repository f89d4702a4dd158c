package db

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/servicetest/timeline"
)

func TestWindowsStayExactWhileSecretKeysRotate(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		for name, zone := range timeline.RotationZones() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, engine.Database(t))
				rotated := struct {
					*Store
					service.ZoneLister
				}{b.store, b.store.Records}
				timeline.ExerciseRotation(t, rotated, b, zone, 1)
				if n := b.Count(
					t, "SELECT COUNT(*) FROM zone_bucket_lock WHERE zone_id = 1 AND bucket_key NOT LIKE 'hmac:k_:%'"); n > 0 {
					t.Errorf("%d clear keys among the lock rows", n)
				}
			})
		}
	})
}

// pseudonym is one by a key k1.
const pseudonym = "hmac:k1:44q2vkckJ9cmgjH-QNXbvXrATOfUrBBsQIFwpi0LpQk"

// hiding is a zone that keeps pseudonyms.
func hiding() service.Zone {
	return service.Zone{
		ID: 1, Rate: 2, Window: time.Hour,
		Keys: service.KeyRule{Kind: service.KeyUsername, Form: service.KeyHMAC},
	}
}

func TestSQLRefusesClearKeysWhereKeysAreHidden(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, hiding(), service.Zone{ID: 2, Rate: 2, Window: time.Hour})
		// As if alice had come before the zone began to hide keys.
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (1, 'alice')")
		before := d.Count(t, "SELECT COUNT(*) FROM zone_audit")
		for _, key := range []string{
			"alice", "bob", "hmac:k1:short", strings.Replace(pseudonym, "hmac", "HMAC", 1), pseudonym + "x",
			pseudonym + "\n",
		} {
			quoted := "'" + strings.ReplaceAll(key, "\n", "\\n") + "'"
			inJSON := strings.ReplaceAll(fmt.Sprintf("%q", key), `\`, `\\`)
			for _, statement := range []string{
				"CALL check_velocity(1, " + quoted + ")",
				"CALL check_velocity_by_rule(1, " + quoted + ", 'hmac/username', TRUE)",
				"CALL check_velocity_buckets('[{\"zone_id\":2,\"bucket_key\":\"x\"},{\"zone_id\":1,\"bucket_key\":" + inJSON +
					"}]', NULL)",
				"CALL peek_velocity(1, " + quoted + ")",
				"CALL release_bucket(1, " + quoted + ", NULL, 'why')",
				"INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (1, " + quoted + ", 'deny')",
			} {
				_, err := d.SQL.Exec(statement)
				var engineError *mysql.MySQLError
				if !errors.As(err, &engineError) || engineError.Number != session.NumberBadArgument ||
					!strings.Contains(engineError.Message, "must be a pseudonym") ||
					strings.Contains(engineError.Message, key) {
					t.Errorf("%s: %v", statement, err)
				}
			}
		}
		for table, most := range map[string]int{
			"zone_txn": 0, "zone_bucket_lock": 1, "zone_override": 0,
			"zone_audit": before,
		} {
			if n := d.Count(t, "SELECT COUNT(*) FROM "+table); n != most {
				t.Errorf("%s has %d rows, want %d", table, n, most)
			}
		}
		for _, statement := range []string{
			"CALL check_velocity(1, '" + pseudonym + "')", "CALL peek_velocity(1, '" + pseudonym + "')",
			"CALL check_velocity_buckets('[{\"zone_id\":1,\"bucket_key\":\"" + pseudonym + "\"}]', NULL)",
			"CALL release_bucket(1, '" + pseudonym + "', NULL, 'why')", "CALL check_velocity(2, 'alice')",
		} {
			enginetest.Exec(t, d.SQL, statement)
		}
		d.WantCount(t, 2, "SELECT COUNT(*) FROM zone_txn WHERE zone_id = 1 AND bucket_key = ?", pseudonym)
	})
}

// A service of the version before sends clear keys by the rule that it knows.
func TestServiceUnawareOfPseudonymsWritesNoClearKey(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, hiding())
		one := service.Check{
			Buckets: []service.Bucket{{ZoneID: 1, Key: "alice"}}, KeyRules: []service.KeyRule{{Kind: service.KeyUsername}},
		}
		good := service.Check{Buckets: []service.Bucket{user(pseudonym)}, KeyRules: []service.KeyRule{hiding().Keys}}
		second := service.Check{
			Buckets:  append(good.Buckets, one.Buckets...),
			KeyRules: append(good.KeyRules, one.KeyRules...),
		}
		for name, checks := range map[string][]service.Check{
			"lone": {one}, "batch": {one, one}, "second bucket": {second}, "behind a good one": {good, one},
			"many": slices.Repeat([]service.Check{one}, 20),
		} {
			if _, err := store.CheckAll(t.Context(), service.Call{Checks: checks}); !errors.Is(err, service.ErrStaleKey) {
				t.Errorf("%s: %v", name, err)
			}
		}
		unruled := service.Check{Buckets: one.Buckets}
		if _, err := store.CheckAll(t.Context(), service.Call{Checks: []service.Check{unruled, unruled}}); !errors.Is(
			err, service.ErrInvalid) {
			t.Errorf("without a rule: %v", err)
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn") + d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock"); n != 0 {
			t.Errorf("%d rows were left", n)
		}
	})
}

func TestOverridesOfOldKeyHoldUnderNewOne(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		zone := hiding()
		zone.Lockout = time.Hour
		d, store := stand(t, engine, session.Options{}, zone)
		var keys []service.SecretKey
		for id, digits := range map[string]string{"k1": "a1", "k2": "b2"} {
			key, err := service.ParseSecretKey(id, strings.Repeat(digits, 32))
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		ring := new(service.Keyring)
		if err := ring.Replace(keys); err != nil {
			t.Fatal(err)
		}
		for key, o := range map[string]service.Override{
			"raised":  {Action: service.OverrideLimit, Rate: 300, Window: service.Lasting(2 * time.Hour)},
			"denied":  {Action: service.OverrideDeny},
			"allowed": {Action: service.OverrideAllow},
		} {
			hidden, err := ring.Pseudonyms(service.Bucket{ZoneID: 1, Key: key})
			if err != nil {
				t.Fatal(err)
			}
			o.ZoneID, o.Key = 1, hidden[1].Key
			d.SetOverride(t, o)
		}
		limiter := service.NewLimiter(store, service.LimiterOptions{Zones: store.Records, Keys: ring, Timeout: time.Minute})
		for key, want := range map[string]int{"raised": 5, "denied": 0, "allowed": 5, "plain": 2} {
			passed := 0
			for range 5 {
				decision, err := askLimiter(t.Context(), limiter,
					[]service.Check{{Buckets: []service.Bucket{{ZoneID: 1, Key: key}}}})
				if err != nil {
					t.Fatal(err)
				}
				if !decision.Blocked {
					passed++
				}
			}
			if passed != want {
				t.Errorf("%s: %d of 5 passed, want %d", key, passed, want)
			}
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE bucket_key NOT LIKE 'hmac:k_:%'"); n > 0 {
			t.Errorf("%d txns under clear keys", n)
		}
	})
}

func TestGoAndSQLRecognizeSecretsAndKeepNone(t *testing.T) {
	t.Parallel()
	const first, second = "c0ffee-c0ffee", "decaf-decaf"
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 9, Window: time.Hour, RepeatSecret: service.RepeatFree},
			zone(2, 9, time.Hour))
		store, procedures := connect(t, d, session.Options{}), newSQLStore(t, d, false)
		for i, try := range []struct {
			store  service.CheckStore
			secret string
			counts int
		}{
			{store, first, 1},
			{procedures, first, 1},
			{procedures, second, 2},
			{store, second, 2},
			{store, first, 2},
			{procedures, "", 3},
		} {
			checks := attempt("attempt "+string(rune('a'+i)), user("a"), service.Bucket{ZoneID: 2, Key: "x"})
			checks[0].SecretHash = try.secret
			decision, err := ask(t.Context(), try.store, checks)
			if err != nil || decision.Blocked || decision.Verdicts[0].Velocity != try.counts ||
				decision.Verdicts[1].Velocity != i+1 {
				t.Errorf("try %d: got %+v, %v", i, decision, err)
			}
		}
		d.WantCount(t, 2, "SELECT COUNT(*) FROM zone_txn WHERE imprint IS NOT NULL AND counted AND zone_id = 1")
		d.WantCount(t, 2, "SELECT COUNT(*) FROM zone_txn WHERE imprint IS NOT NULL")
		for _, table := range []string{"zone_txn", "zone_bucket_lock", "zone_attempt", "zone_audit"} {
			rows, err := enginetest.Texts(d.SQL, "SELECT * FROM "+table)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				if text := strings.Join(row, "|"); strings.Contains(text, first) || strings.Contains(text, second) {
					t.Errorf("%s holds a caller's hash: %q", table, text)
				}
			}
		}
	})
}

func TestImprintKeyIsRenewedAfterTheWindow(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 9, Window: time.Hour, RepeatSecret: service.RepeatFree})
		const keys = "SELECT HEX(imprint_key) FROM zone_bucket_lock WHERE zone_id = 1"
		for name, store := range map[string]service.CheckStore{
			"go": connect(t, d, session.Options{}), "sql": newSQLStore(t, d, false),
		} {
			checks := check(user(name))
			checks[0].SecretHash = "c0ffee-c0ffee"
			key := func() string {
				decideOne(t, store, checks)
				rows, err := enginetest.Texts(d.SQL, keys+" AND bucket_key = '"+name+"'")
				if err != nil || len(rows) != 1 || len(rows[0][0]) != 32 {
					t.Fatalf("%s: got %q, %v", name, rows, err)
				}
				return rows[0][0]
			}
			before := key()
			if again := key(); again != before {
				t.Errorf("%s: the key changed while its imprints count", name)
			}
			d.Age(t, user(name), time.Hour)
			enginetest.Exec(
				t, d.SQL, "UPDATE zone_bucket_lock SET imprint_until = imprint_until - INTERVAL 1 HOUR WHERE bucket_key = ?", name)
			if again := key(); again == before {
				t.Errorf("%s: the key is the same though no imprint counts", name)
			}
		}
	})
}
