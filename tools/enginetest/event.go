package enginetest

import (
	"testing"

	"velocityd/service"
	"velocityd/service/event"
)

// EventsOf returns every event of a bucket by id.
func (d *Database) EventsOf(tb testing.TB, bucket service.Bucket) []event.Event {
	tb.Helper()
	events, err := Consistently(tb, d, func() ([]event.Event, error) { return d.eventsOf(bucket) })
	if err != nil {
		tb.Fatal(err)
	}
	return events
}

func (d *Database) eventsOf(bucket service.Bucket) (events []event.Event, err error) {
	rows, err := d.SQL.Query("SELECT id, created_at, type, zone_id, bucket_key, COALESCE(txn_id, 0), data FROM "+
		"zone_event WHERE zone_id = ? AND bucket_key = ? ORDER BY id", bucket.ZoneID, bucket.Key)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e event.Event
		if err := rows.Scan(&e.ID, &e.At.Time, &e.Type, &e.Bucket.ZoneID, &e.Bucket.Key, &e.TxnID,
			(*[]byte)(&e.Data)); err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, rows.Err()
}

// ageLockouts moves the times of a bucket's rows of zone_lockout so many microseconds into the past.
func (d *Database) ageLockouts(tb testing.TB, bucket service.Bucket, us int64) {
	tb.Helper()
	Exec(tb, d.SQL, "UPDATE zone_lockout SET locked_at = locked_at - INTERVAL ? MICROSECOND, locked_until = "+
		"locked_until - INTERVAL ? MICROSECOND WHERE zone_id = ? AND bucket_key = ?", us, us, bucket.ZoneID, bucket.Key)
}
