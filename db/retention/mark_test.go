package retention_test

import (
	"testing"

	"velocityd/db/dbtest"
	"velocityd/db/retention"
)

func TestMarksNoteTheHighestIDAndForgetMostOldOnes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		marks := func() (n, highest int64) {
			t.Helper()
			if err := d.SQL.QueryRow("SELECT COUNT(*), COALESCE(MAX(txn_id), 0) FROM zone_txn_mark").Scan(&n, &highest); err != nil {
				t.Fatal(err)
			}
			return n, highest
		}
		r := runner(t, d.DSN, retention.Marks())
		again := func() {
			t.Helper()
			dbtest.Exec(t, d.SQL, "UPDATE retention_task SET began_at = began_at - INTERVAL 1 HOUR")
			if runs, err := r.Turn(t.Context()); err != nil || len(runs) != 1 || runs[0].Err != nil {
				t.Fatalf("%+v, %v", runs, err)
			}
		}
		if again(); countOf(marks()) != 0 {
			t.Error("an empty history has a mark")
		}
		dbtest.Exec(t, d.SQL, "INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, counted) "+
			"VALUES (7000, UTC_TIMESTAMP(6), 9, 'x', FALSE, FALSE, FALSE)")
		for minute := range 180 {
			dbtest.Exec(t, d.SQL, "INSERT INTO zone_txn_mark (txn_id, marked_at) VALUES (?, DATE(UTC_TIMESTAMP()) - INTERVAL 3 DAY + INTERVAL ? MINUTE), "+
				"(?, UTC_TIMESTAMP(6) - INTERVAL 46 HOUR + INTERVAL ? MINUTE)", minute, minute, 1000+minute, minute)
		}
		for range 2 { // a second mark of an id leaves the first one
			again()
			if n, highest := marks(); n != 3+180+1 || highest != 7000 {
				t.Errorf("%d marks up to id %d, want 184 up to 7000", n, highest)
			}
		}
	})
}

// countOf returns the first of two numbers.
func countOf(n, _ int64) int64 { return n }
