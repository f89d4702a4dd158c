package db

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/service"
	"velocityd/service/servicetest"
)

// portable connects to a database with the portable tables, as an engine without procedures. On
// MySQL it takes the form of TiDB.
func portable(tb testing.TB, d *dbtest.Database, o Options) *Store {
	tb.Helper()
	var version string
	if err := d.SQL.QueryRow("SELECT VERSION()").Scan(&version); err != nil {
		tb.Fatal(err)
	}
	if engineOf(version, "") == EngineMySQL && o.Engine == "" {
		o.Engine = EngineTiDB
	}
	return connect(tb, d, o)
}

// portableBench is a bench on portable tables, with a DBA who keeps by statements what triggers
// keep on MySQL.
type portableBench struct{ bench }

func newPortableBench(tb testing.TB, d *dbtest.Database, o Options) portableBench {
	tb.Helper()
	o.LockWait = 10 * time.Second
	store := portable(tb, d, o)
	return portableBench{bench{store, store, d, store}.asking(store)}
}

func (b portableBench) SetZone(tb testing.TB, zone service.Zone) {
	tb.Helper()
	b.Database.SetZone(tb, zone)
	dbtest.Exec(tb, b.SQL, "UPDATE zone_master SET narrowed_at = UTC_TIMESTAMP(6), revision = revision + 1 WHERE id = ?", zone.ID)
}

func (b portableBench) SetOverride(tb testing.TB, o service.Override) {
	tb.Helper()
	b.Database.SetOverride(tb, o)
	if o.Prefix.IsValid() {
		family := 6
		if o.Prefix.Addr().Is4() {
			family = 4
		}
		dbtest.Exec(tb, b.SQL, "UPDATE zone_override SET network = ? WHERE zone_id = ? AND prefix = ?",
			network(netip.PrefixFrom(o.Prefix.Addr(), o.Prefix.Bits())), o.ZoneID, o.Prefix.String())
		dbtest.Exec(tb, b.SQL, "INSERT IGNORE INTO zone_override_prefix_length (zone_id, family, prefix_length) VALUES (?, ?, ?)",
			o.ZoneID, family, o.Prefix.Bits())
	}
	dbtest.Exec(tb, b.SQL, "UPDATE zone_master SET overridden = TRUE, revision = revision + 1 WHERE id = ?", o.ZoneID)
}

func TestPortableStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	servicetest.Exercise(t, func(t *testing.T) servicetest.Bench {
		return newPortableBench(t, dbtest.Portable(t), Options{})
	})
}

func TestPortableStoreSendsNoCall(t *testing.T) {
	t.Parallel()
	d := dbtest.Portable(t, zone(1, 1, time.Hour))
	store := portable(t, d, Options{})
	for i, want := range []bool{false, true} {
		decision, err := ask(context.Background(), store, check(user("a")))
		if err != nil || decision.Blocked != want {
			t.Fatalf("check %d: got %+v, %v", i, decision, err)
		}
	}
	wantSettled(t, d, zone(1, 1, time.Hour))
}
