package dbtest_test

import (
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/service"
)

func TestPortableDatabasesComeWithoutRowsAndProcedures(t *testing.T) {
	t.Parallel()
	for range 3 { // one may be another one's again
		t.Run("", func(t *testing.T) {
			t.Parallel()
			d := dbtest.Portable(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
			d.SetOverride(t, service.Override{ZoneID: 1, Key: "alice", Action: service.OverrideDeny})
			if zones := d.Count(t, "SELECT COUNT(*) FROM zone_master"); zones != 1 {
				t.Errorf("it has %d zones, want 1", zones)
			}
			d.WantCount(t, 0, "SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = DATABASE()")
		})
	}
}
