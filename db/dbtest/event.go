package dbtest

import (
	"testing"

	"velocityd/service"
	"velocityd/service/event"
)

// EventsOf returns every event of a bucket by id.
func (d *Database) EventsOf(tb testing.TB, bucket service.Bucket) (events []event.Event) {
	tb.Helper()
	rows, err := d.SQL.Query("SELECT id, created_at, type, zone_id, bucket_key, COALESCE(txn_id, 0), data FROM zone_event "+
		"WHERE zone_id = ? AND bucket_key = ? ORDER BY id", bucket.ZoneID, bucket.Key)
	if err != nil {
		tb.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var e event.Event
		if err := rows.Scan(&e.ID, &e.At, &e.Type, &e.Bucket.ZoneID, &e.Bucket.Key, &e.TxnID, (*[]byte)(&e.Data)); err != nil {
			tb.Fatal(err)
		}
		events = append(events, e)
	}
	if err := rows.Err(); err != nil {
		tb.Fatal(err)
	}
	return events
}

// ageLockouts moves the times of a bucket's rows of zone_lockout so many microseconds into the past.
func (d *Database) ageLockouts(tb testing.TB, bucket service.Bucket, us int64) {
	tb.Helper()
	Exec(tb, d.SQL, "UPDATE zone_lockout SET locked_at = locked_at - INTERVAL ? MICROSECOND, locked_until = locked_until - INTERVAL ? "+
		"MICROSECOND WHERE zone_id = ? AND bucket_key = ?", us, us, bucket.ZoneID, bucket.Key)
}
