package db

import (
	"strings"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
)

func TestGoAndSQLKnowEachOthersSecretsAndKeepNone(t *testing.T) {
	t.Parallel()
	const first, second = "c0ffee-c0ffee", "decaf-decaf"
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 9, Window: time.Hour, RepeatSecret: service.RepeatFree}, zone(2, 9, time.Hour))
		store, procedures := connect(t, d, session.Options{}), newSQLStore(t, d, false)
		for i, try := range []struct {
			store  service.CheckStore
			secret string
			counts int
		}{
			{store, first, 1}, {procedures, first, 1}, {procedures, second, 2}, {store, second, 2}, {store, first, 2}, {procedures, "", 3},
		} {
			checks := attempt("attempt "+string(rune('a'+i)), user("a"), service.Bucket{ZoneID: 2, Key: "x"})
			checks[0].SecretHash = try.secret
			decision, err := ask(t.Context(), try.store, checks)
			if err != nil || decision.Blocked || decision.Verdicts[0].Velocity != try.counts || decision.Verdicts[1].Velocity != i+1 {
				t.Errorf("try %d: got %+v, %v", i, decision, err)
			}
		}
		d.WantCount(t, 2, "SELECT COUNT(*) FROM zone_txn WHERE imprint IS NOT NULL AND counted AND zone_id = 1")
		d.WantCount(t, 2, "SELECT COUNT(*) FROM zone_txn WHERE imprint IS NOT NULL")
		for _, table := range []string{"zone_txn", "zone_bucket_lock", "zone_attempt", "zone_audit"} {
			rows, err := dbtest.Texts(d.SQL, "SELECT * FROM "+table)
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

func TestTheKeyOfImprintsIsMadeAnewAfterTheWindow(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 9, Window: time.Hour, RepeatSecret: service.RepeatFree})
		const keys = "SELECT HEX(imprint_key) FROM zone_bucket_lock WHERE zone_id = 1"
		for name, store := range map[string]service.CheckStore{
			"go": connect(t, d, session.Options{}), "sql": newSQLStore(t, d, false),
		} {
			checks := check(user(name))
			checks[0].SecretHash = "c0ffee-c0ffee"
			key := func() string {
				decideOne(t, store, checks)
				rows, err := dbtest.Texts(d.SQL, keys+" AND bucket_key = '"+name+"'")
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
			dbtest.Exec(t, d.SQL, "UPDATE zone_bucket_lock SET imprint_until = imprint_until - INTERVAL 1 HOUR WHERE bucket_key = ?", name)
			if again := key(); again == before {
				t.Errorf("%s: the key is the same though no imprint counts", name)
			}
		}
	})
}
