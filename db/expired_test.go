package db

import (
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/retention"
	"velocityd/db/session"
)

// TestPortableOverridesThatExpiredLeaveTheirAudit runs all tasks of a store on an engine without triggers.
func TestPortableOverridesThatExpiredLeaveTheirAudit(t *testing.T) {
	t.Parallel()
	d, store := form{}.stand(t, session.Options{}, zone(1, 5, time.Minute))
	dbtest.Exec(t, d.SQL, `INSERT INTO zone_override (zone_id, bucket_key, action, expires_at, created_at) VALUES
		(1, 'old', 'deny', UTC_TIMESTAMP() - INTERVAL 2 DAY, UTC_TIMESTAMP()),
		(1, 'fresh', 'deny', UTC_TIMESTAMP() - INTERVAL 1 HOUR, UTC_TIMESTAMP())`)
	if err := store.Retention().Finish(t.Context(), func(run retention.Run) {
		if run.Err != nil {
			t.Errorf("%s: %v", run.Task, run.Err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if all, fresh := d.Count(t, "SELECT COUNT(*) FROM zone_override"),
		d.Count(t, "SELECT COUNT(*) FROM zone_override WHERE bucket_key = 'fresh'"); all != 1 || fresh != 1 {
		t.Error("the expired override is left, or the fresh one gone")
	}
	d.WantCount(t, 1, "SELECT COUNT(*) FROM zone_audit WHERE subject = 'override' AND action = 'delete' "+
		"AND principal = 'velocityd retention'")
}
