//go:build cluster

package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// TestClusterGoAndSQLAgreeOnRandomTimelines lets the store on the two shards of a cluster live
// through the same timeline as the procedures on MySQL. They may differ in this, and in nothing else:
//   - An attempt id that is used again without the buckets that it had may be a new attempt on
//     shards, and is ErrConflict on MySQL. No timeline does that on a cluster: see randomCheck.
//   - Ids of txns and overrides are others. They are compared by their order.
//   - zone_attempt has a bucket_key on shards, which is not compared.
//   - There are no triggers on shards: the store's own statements edit zones and overrides.
func TestClusterGoAndSQLAgreeOnRandomTimelines(t *testing.T) {
	t.Parallel()
	onMySQL := newTwin(t, mysqlEngine(t), false, func(s *Store) []service.CheckStore {
		return []service.CheckStore{sqlStore{conns: s.lookUps.Conns.DB}, sqlStore{conns: s.lookUps.Conns.DB, several: true}}
	})
	sharded := newShardedTwin(t)
	// The rows of an earlier run that was cut off.
	clearZones(t, sharded.SQL, firstLived, 2*firstLived)
	deleteRows(t, sharded.SQL, "zone_attempt WHERE attempt_id LIKE 'cluster-t%'")
	liveTogether(t, []*twin{sharded, onMySQL}, firstLived, 50)
}

func TestClusterTimelinesUseBothShardsInEachZone(t *testing.T) {
	t.Parallel()
	for _, keys := range newTimeline(nil, 1, firstLived).keys {
		shards := map[int]bool{}
		for _, key := range keys {
			shards[twoShards().Of(service.Bucket{Key: key})] = true
		}
		if len(shards) != 2 {
			t.Errorf("%q lie on %d shards, want 2", keys, len(shards))
		}
	}
}

// firstLived is the first zone of timelines on a cluster. Its other tests use lower ones, and
// those above 900,000.
const firstLived = 100_001

// newShardedTwin returns a twin on the cluster that VELOCITY_CLUSTER_DSN names. Two instances of
// the service ask it: each must know the work of the other one.
func newShardedTwin(t *testing.T) *twin {
	t.Helper()
	w := &twin{Database: &enginetest.Database{SQL: overCluster(t)}, isSharded: true}
	w.store, w.others = w.instance(t), w.instance(t)
	w.ask, w.dba = []service.CheckStore{w.store, w.others}, statements{w.others}
	return w
}

// instance returns a store whose statements go by the twin's clock.
func (w *twin) instance(t *testing.T) *Store {
	t.Helper()
	o := session.Options{
		DSN: os.Getenv("VELOCITY_CLUSTER_DSN"), MaxConns: 2, LockWait: 10 * time.Second,
		ConnectTimeout: time.Minute,
	}
	store, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	_ = store.Close() // before its pools have a connection
	t.Cleanup(func() { _ = store.Close() })
	store.checks, store.lookUps.Conns.DB = w.toldTheClock(t, o, store.database, session.ForChecks),
		w.toldTheClock(t, o, store.database, session.ForOthers)
	return store
}

// toldTheClock returns a pool of one connection whose statements go by the twin's clock.
func (w *twin) toldTheClock(t *testing.T, o session.Options, database *session.Database, use session.Use) *sql.DB {
	t.Helper()
	c, err := session.NewConnector(o, database, use)
	if err != nil {
		t.Fatal(err)
	}
	pool := sql.OpenDB(editing{c, func(packet string) string { return w.atClock(w.countUses(packet)) }})
	pool.SetMaxOpenConns(1)
	return pool
}

// editing opens connections whose packets edit changes.
type editing struct {
	*session.Connector
	edit func(packet string) string
}

// Connect implements driver.Connector.
func (e editing) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := e.Connector.Connect(ctx)
	if own, ok := conn.(*session.Conn); ok {
		own.DriverConn = edited{own.DriverConn, e.edit}
	}
	return conn, err
}

// atClock returns a packet in which the twin's clock stands in place of the engine's. vtgate knows
// no SET timestamp. It passes on the hint SET_VAR(timestamp=…), but after it the clock of a session
// of MySQL 9.7 stands still, and tablets share their sessions.
func (w *twin) atClock(packet string) string {
	const clock = "UTC_TIMESTAMP(6)"
	if !strings.Contains(packet, clock) { // as of the shards, which are read beside the timeline
		return packet
	}
	return strings.ReplaceAll(packet, clock, "CAST('"+w.now.Format(session.InstantFormat)+"' AS DATETIME(6))")
}

// statements is a dba that edits by the store's own statements.
type statements struct{ *Store }

func (s statements) SetZone(tb testing.TB, zone service.Zone) {
	tb.Helper()
	if _, err := s.Records.PutZone(tb.Context(), zone, service.Match{}, ""); err != nil {
		tb.Fatal(err)
	}
}

func (s statements) DeleteZone(tb testing.TB, id int64) {
	tb.Helper()
	if err := s.Store.Records.DeleteZone(context.Background(), id, service.Match{}, ""); err != nil &&
		!errors.Is(err, service.ErrNotFound) {
		tb.Fatal(err)
	}
}

// SetOverride takes overrides that do not fit their zones, too, as those are that stay when the
// zone changes.
func (s statements) SetOverride(tb testing.TB, o service.Override) {
	tb.Helper()
	if err := s.Records.ForceOverride(tb.Context(), o); err != nil {
		tb.Fatal(err)
	}
}

func (s statements) DeleteOverrides(tb testing.TB, zoneID int64) {
	tb.Helper()
	if err := s.Records.DropOverrides(tb.Context(), zoneID); err != nil {
		tb.Fatal(err)
	}
}
