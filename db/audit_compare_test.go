package db

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/records"
	"velocityd/db/session"
	"velocityd/service"
)

func TestCompareAuditFindsWhatNoTriggerRecorded(t *testing.T) {
	t.Parallel()
	d, store := form{}.stand(t, session.Options{})
	var ids []uint64
	for id := range int64(4) {
		z := every(id + 1)
		z.Keys = service.KeyRule{}
		put(t, store, z, "ann")
		for _, key := range []string{"a", "b"} {
			o, err := store.Records.AddOverride(t.Context(), service.Override{
				ZoneID: id + 1, Key: key, Action: service.OverrideLimit, Window: service.Lasting(time.Minute),
				ExpiresAt: service.At(time.Now().Add(time.Hour)),
			}, "ann")
			if err != nil {
				t.Fatal(err)
			}
			o.Reason = "again"
			if _, err := store.Records.SetOverride(t.Context(), o, "bob"); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, o.ID)
		}
	}
	if err := store.Records.DeleteZone(t.Context(), 4, service.Match{}, "ann"); err != nil {
		t.Fatal(err)
	}
	// A release says nothing of zones and overrides.
	dbtest.Exec(t, d.SQL, "INSERT INTO zone_audit (changed_at, changed_by, subject, action, zone_id, state_after) "+
		"VALUES (UTC_TIMESTAMP(6), 'x', 'bucket', 'release', 1, '{}')")
	of := func(zoneID int64, overrideID uint64) records.Unaudited {
		return records.Unaudited{ZoneID: zoneID, OverrideID: overrideID}
	}
	want := func(list ...records.Unaudited) {
		t.Helper()
		got, err := store.Records.CompareAudit(t.Context())
		if err != nil || !got.Whole || !slices.Equal(got.Unaudited, list) {
			t.Errorf("got %+v, %v, want %v", got, err, list)
		}
	}
	want()
	dbtest.Exec(t, d.SQL, "UPDATE zone_master SET overridden = TRUE")
	want()
	for _, beside := range []string{
		"UPDATE zone_master SET lockout_factor = 1.26 WHERE id = 1",
		fmt.Sprint("UPDATE zone_override SET expires_at = expires_at + INTERVAL 1 MICROSECOND WHERE id = ", ids[0]),
		fmt.Sprint("DELETE FROM zone_override WHERE id = ", ids[2]),
		fmt.Sprint("UPDATE zone_override SET bucket_key = NULL, prefix = '10.0.0.0/8' WHERE id = ", ids[3]),
		"DELETE FROM zone_override WHERE zone_id = 3",
		"DELETE FROM zone_master WHERE id = 3",
		"INSERT INTO zone_master (id, rate, `window`) VALUES (4, 1, 1), (5, 1, 1)",
		"INSERT INTO zone_override (id, zone_id, bucket_key, action, created_at) VALUES (99, 5, 'x', 'deny', UTC_TIMESTAMP(6))",
	} {
		dbtest.Exec(t, d.SQL, beside)
	}
	want(of(1, 0), of(1, ids[0]), of(2, ids[2]), of(2, ids[3]), of(3, 0), of(3, ids[4]), of(3, ids[5]),
		of(4, 0), of(5, 0), of(5, 99))
}

func TestCompareAuditFindsNothingWhereTriggersRecord(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d, store := stand(t, engine, session.Options{}, every(1), zone(2, 5, time.Minute), zone(3, 5, time.Minute))
		d.SetOverride(t, service.Override{ZoneID: 2, Key: "x", Action: service.OverrideDeny, ExpiresAt: service.At(time.Now().Add(time.Hour))})
		dbtest.Exec(t, d.SQL, "UPDATE zone_master SET rate = rate + 1")
		dbtest.Exec(t, d.SQL, "DELETE FROM zone_master WHERE id = 3")
		if got, err := store.Records.CompareAudit(t.Context()); err != nil || !got.Whole || len(got.Unaudited) > 0 {
			t.Errorf("got %+v, %v", got, err)
		}
		if _, err := connect(t, d.Account(t, "SELECT ON zone_master", "SELECT ON zone_override"), session.Options{}).Records.CompareAudit(t.Context()); !errors.Is(err, service.ErrForbidden) {
			t.Errorf("without a right to zone_audit: %v", err)
		}
	})
}

func TestCompareAuditReadsTheNewestAndSaysSo(t *testing.T) {
	t.Parallel()
	d, store := form{}.stand(t, session.Options{}, zone(1, 5, time.Minute))
	put(t, store, zone(2, 5, time.Minute), "")
	const digit = "(SELECT 0 AS n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 " +
		"UNION SELECT 8 UNION SELECT 9)"
	dbtest.Exec(t, d.SQL, "INSERT INTO zone_audit (changed_at, changed_by, subject, action, zone_id, state_after) "+
		"SELECT UTC_TIMESTAMP(6), 'x', 'bucket', 'release', 1, '{}' FROM "+
		digit+" AS a, "+digit+" AS b, "+digit+" AS c, "+digit+" AS d, (SELECT 1 UNION SELECT 2) AS e")
	dbtest.Exec(t, d.SQL, "UPDATE zone_master SET rate = rate + 1")
	put(t, store, zone(3, 5, time.Minute), "")
	dbtest.Exec(t, d.SQL, "UPDATE zone_master SET rate = rate + 1")
	// Zone 1 has no row in zone_audit, and that of zone 2 is not among the newest.
	got, err := store.Records.CompareAudit(t.Context())
	if err != nil || got.Whole || !slices.Equal(got.Unaudited, []records.Unaudited{{ZoneID: 3}}) {
		t.Errorf("got %+v, %v, want zone 3", got, err)
	}
}
