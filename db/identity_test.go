package db

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
)

func TestAnotherDatabaseBehindTheAddressIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 5, time.Hour))
		p := dbtest.Through(t, d.DSN)
		var told atomic.Int64
		o := session.Options{DSN: p.DSN, Observe: func(e session.Event) {
			if e == session.OtherDatabase {
				told.Add(1)
			}
		}}
		store := connect(t, &dbtest.Database{DSN: p.DSN}, o)
		probe := store.Probe()
		decided(t, store, user("alice"))
		var identity string
		if err := d.SQL.QueryRow("SELECT value FROM velocity_identity WHERE name = 'database'").Scan(&identity); err != nil ||
			len(identity) != 36 {
			t.Fatalf("identity %q, %v", identity, err)
		}
		dbtest.Exec(t, d.SQL, "UPDATE velocity_identity SET value = UUID() WHERE name = 'database'")
		p.Cut()
		for range 3 {
			if _, err := ask(t.Context(), store, check(user("alice"))); !errors.Is(err, service.ErrAway) {
				t.Errorf("a check at another database: %v", err)
			}
		}
		if _, err := store.Records.Zones(t.Context()); !errors.Is(err, service.ErrAway) {
			t.Errorf("a look-up at another database: %v", err)
		}
		if err := probe.Prove(t.Context()); err == nil || !strings.Contains(err.Error(), "another database") || told.Load() < 3 {
			t.Errorf("readiness says %v, %d refusals were told", err, told.Load())
		}
		dbtest.Exec(t, d.SQL, "UPDATE velocity_identity SET value = ? WHERE name = 'database'", identity)
		if _, err := ask(t.Context(), store, check(user("alice"))); err != nil {
			t.Errorf("back at its own: %v", err)
		}
	})
}
