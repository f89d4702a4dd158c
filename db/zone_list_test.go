package db

import (
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/db/records"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// renewed returns a list of zones as it is now, which must be all zones of the database.
func renewed(t *testing.T, store *Store, known records.ZoneList) records.ZoneList {
	t.Helper()
	now, err := store.Records.RenewZones(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := store.Records.Zones(t.Context()); err != nil || !slices.Equal(now.Zones, want) {
		t.Errorf("the list is %+v, want %+v, %v", now.Zones, want, err)
	}
	return now
}

// TestZoneListIsRenewedByReadingChanges uses the rights of the service's account alone.
func TestZoneListIsRenewedByReadingChanges(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d := f.database(t, zone(1, 5, time.Minute), zone(2, 5, time.Minute), zone(3, 5, time.Minute))
		account := d.ServiceAccount(t)
		store, editor := f.connect(t, account, session.Options{}), f.connect(t, d, session.Options{})
		put := func(z service.Zone) {
			t.Helper()
			if _, err := editor.Records.PutZone(t.Context(), z, service.Match{}, "test"); err != nil {
				t.Fatal(err)
			}
		}
		first := renewed(t, store, records.ZoneList{})
		before := slices.Clone(first.Zones)
		now := first
		for what, change := range map[string]func(){
			"nothing":        func() {},
			"a changed zone": func() { put(zone(2, 6, time.Hour)) },
			"a new zone":     func() { put(zone(4, 5, time.Minute)) },
			"two changes of one zone, and a deletion": func() {
				put(zone(1, 7, time.Minute))
				put(every(1))
				if err := editor.Records.DeleteZone(t.Context(), 3, service.Match{}, "test"); err != nil {
					t.Fatal(err)
				}
			},
			"a release": func() {
				release(t, editor, service.Bucket{ZoneID: 2, Key: "alice"})
			},
		} {
			change()
			now = renewed(t, store, now)
			if !now.ReadAt.Equal(first.ReadAt) {
				t.Errorf("after %s all zones were read", what)
			}
		}
		if !slices.Equal(first.Zones, before) {
			t.Errorf("the first list has become %+v", first.Zones)
		}
		if behind := renewed(t, store, first); !behind.ReadAt.Equal(first.ReadAt) {
			t.Error("an older list was read anew as a whole")
		}

		// Nothing says that a zone was changed.
		enginetest.Exec(t, d.SQL, "UPDATE zone_master SET rate = 9 WHERE id = 2")
		enginetest.Exec(t, d.SQL, "DELETE FROM zone_audit")
		now.ReadAt = now.ReadAt.Add(-time.Minute)
		now = renewed(t, store, now)

		// Very much was changed.
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_audit (changed_at, changed_by, subject, action, zone_id) VALUES "+
			strings.Repeat("(UTC_TIMESTAMP(6), 'test', 'override', 'insert', 1), ", 1000)+
			"(UTC_TIMESTAMP(6), 'test', 'override', 'insert', 1)")
		much := renewed(t, store, now)
		if !much.ReadAt.After(now.ReadAt) {
			t.Error("after many changes not all zones were read")
		}
		if again := renewed(t, store, much); !again.ReadAt.Equal(much.ReadAt) {
			t.Error("the many changes were read again")
		}
	})
}

func TestAccountBlindToChangesReadsAllZones(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d := f.database(t, zone(1, 5, time.Minute))
		narrow := d.ServiceAccount(t)
		account, database := accountOf(t, narrow)
		enginetest.Exec(t, d.SQL, "REVOKE SELECT ON "+database+".zone_audit FROM "+account)
		store, editor := f.connect(t, narrow, session.Options{}), f.connect(t, d, session.Options{})
		first := renewed(t, store, records.ZoneList{})
		put(t, editor, zone(2, 6, time.Hour), "test")
		renewed(t, store, first)
	})
}
