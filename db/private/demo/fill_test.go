package demo_test

import (
	"errors"
	"testing"
	"time"

	"velocityd/db/private/demo"
	"velocityd/tools/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// The audit of the database when the test ends proves that no window holds more than its rate.
func TestDemoDayHasLockoutAndIsMadeOnce(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		end := time.Now()
		rename := func(from, to string) {
			if _, err := d.SQL.Exec("RENAME TABLE " + from + " TO " + to); err != nil {
				t.Fatal(err)
			}
		}
		rename("zone_event", "away")
		if _, err := demo.Fill(t.Context(), d.SQL, end); err == nil || errors.Is(err, demo.ErrNotEmpty) {
			t.Fatalf("without a table: %v", err)
		}
		rename("away", "zone_event") // nothing is left that would keep the demo from being made
		attempts, err := demo.Fill(t.Context(), d.SQL, end)
		if err != nil || attempts < 1500 {
			t.Fatalf("%d attempts, %v", attempts, err)
		}
		for what, question := range map[string]string{
			"a bucket is locked": "SELECT COUNT(*) > 0 FROM zone_lockout WHERE locked_until > UTC_TIMESTAMP(6)",
			"a spray got in": "SELECT COUNT(*) = 1 FROM zone_txn WHERE bucket_key = '203.0.113.77' AND " +
				"outcome = 'success'",
			"hours are full of people": "SELECT COUNT(DISTINCT HOUR(created_at)) > 20 FROM zone_txn WHERE outcome = " +
				"'success'",
			"attempts end before now": "SELECT MAX(created_at) < UTC_TIMESTAMP(6) FROM zone_txn",
			"zones are older than attempts": "SELECT (SELECT MAX(changed_at) FROM zone_audit) < (SELECT MIN(created_at) " +
				"FROM zone_txn)",
			"each lockout has begun an event": "SELECT (SELECT COUNT(*) FROM zone_event WHERE type = 'bucket.locked') = " +
				"(SELECT COUNT(*) FROM zone_txn WHERE reason = 'lockout')",
		} {
			var isSo bool
			if err := d.SQL.QueryRow(question).Scan(&isSo); err != nil || !isSo {
				t.Errorf("not so: %s, %v", what, err)
			}
		}
		if _, err := demo.Fill(t.Context(), d.SQL, end); !errors.Is(err, demo.ErrNotEmpty) {
			t.Errorf("a second time: %v", err)
		}
	})
}
