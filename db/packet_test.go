package db

import (
	"fmt"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/service"
)

// TestSmallPacketsAdmitNoMore asks for what decide_together writes as texts of
// about max_allowed_packet: a text that is too long is NULL, and must never pass
// for buckets without counts or overrides.
func TestSmallPacketsAdmitNoMore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		const size, barred = 1000, 500
		d := dbtest.Empty(t, dbtest.AdminDSN(engine.Private(t, t.TempDir()), ""))
		dbtest.Migrate(t, d.DSN)
		window := 366 * 24 * time.Hour
		d.SetZone(t, zone(1, 5, window))
		checks := make([]service.Check, size)
		for i := range checks {
			checks[i] = check(service.Bucket{ZoneID: 1, Key: fmt.Sprint("k", 100+i)})[0]
		}
		if _, err := NewProcStore(connect(t, d, Options{})).CheckAll(t.Context(), checks); err != nil {
			t.Fatal(err)
		}
		for i, c := range checks {
			o := service.Override{
				ZoneID: 1, Key: c.Buckets[0].Key, Action: service.OverrideLimit, Rate: 1_000_000, Window: window,
				ExpiresAt: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC),
			}
			if i < barred {
				o.Action, o.Rate, o.Window = service.OverrideDeny, 0, 0
			}
			d.SetOverride(t, o)
		}
		for packet := 72 << 10; packet <= 104<<10; packet += 4 << 10 {
			dbtest.Exec(t, d.SQL, "SET GLOBAL max_allowed_packet = ?", packet)
			store := NewProcStore(connect(t, d, Options{}))
			decisions, err := store.CheckAll(t.Context(), checks)
			if err != nil {
				t.Errorf("%d bytes: %v", packet, err)
				continue
			}
			blocked := 0
			for _, decision := range decisions {
				if decision.Blocked {
					blocked++
				}
			}
			if blocked != barred {
				t.Errorf("%d bytes: %d of %d blocked, want %d", packet, blocked, size, barred)
			}
		}
	})
}
