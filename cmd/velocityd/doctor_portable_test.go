package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/cmd/velocityd/doctor"

	"velocityd/internal/engine"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

func TestDoctorFindsAFreshPortableDatabaseFit(t *testing.T) {
	t.Parallel()
	d := enginetest.Portable(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
	code, found := consultOn(t, d.ServiceAccount(t), engine.TiDB)
	if code != exitSuccess {
		t.Errorf("exit code %d: %+v", code, found)
	}
	for _, about := range []string{
		"schema", "checks and reports", "rights", "checks", "sessions", "clock", "partitions", "growth", "retention",
		"indexes", "zones",
	} {
		if list := found[about]; len(list) != 1 || list[0].Level != doctor.OK {
			t.Errorf("%s: %+v, want that it is as it should be", about, list)
		}
	}
	if list := found["texts"]; len(list) != 0 {
		t.Errorf("texts: %+v, want nothing about procedures, of which there are none", list)
	}
}

// Nothing records an edit by SQL where there are no triggers, but readers of the audit are told.
func TestDoctorNamesPortableZonesEditedBesideService(t *testing.T) {
	t.Parallel()
	d := enginetest.Portable(t, service.Zone{ID: 7, Rate: 5, Window: time.Minute}) // by SQL
	as := d.ServiceAccount(t)
	_, found := consultOn(t, as, engine.TiDB)
	if list := found["audit"]; len(list) != 1 || list[0].Level != doctor.Warning ||
		!strings.Contains(list[0].Is, "zone 7") {
		t.Errorf("audit: %+v, want a warning about zone 7", list)
	}
	var account string
	if err := as.SQL.QueryRow("SELECT CURRENT_USER()").Scan(&account); err != nil {
		t.Fatal(err)
	}
	enginetest.Exec(t, d.SQL, "REVOKE SELECT ON zone_audit FROM "+account)
	_, found = consultOn(t, as, engine.TiDB)
	if list := found["audit"]; len(list) != 1 || list[0].Level != doctor.Note {
		t.Errorf("audit, without the right to read it: %+v, want a note that it cannot look", list)
	}
}

func TestDoctorNamesAPortableTableWithoutItsIndex(t *testing.T) {
	t.Parallel()
	d := enginetest.EmptyPortable(t)
	enginetest.MigratePortable(t, d.DSN)
	enginetest.Exec(t, d.SQL, "ALTER TABLE zone_txn DROP KEY zone_txn_window")
	code, found := consultOn(t, d, engine.TiDB)
	isFault := func(one service.Diagnosis) bool { return one.Level == doctor.Fault }
	if code != exitError || !slices.ContainsFunc(found["indexes"], isFault) {
		t.Errorf("exit code %d, indexes: %+v, want a fault", code, found["indexes"])
	}
}
