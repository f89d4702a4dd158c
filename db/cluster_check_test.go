//go:build cluster

package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/servicetest"
)

// exercised is the turn of a claim of Exercise: they share one database.
type exercised struct{ sync.Mutex }

// open returns a bench on the cluster without zones and txns below 1000, which belong to
// Exercise. The next claim waits for the end of this one.
func (e *exercised) open(t *testing.T) servicetest.Subject {
	t.Helper()
	e.Lock()
	t.Cleanup(e.Unlock)
	d, store := clusterStand(t)
	for _, table := range []string{
		"zone_txn", "zone_bucket_lock", "zone_override", "zone_override_prefix_length",
		"zone_audit", "zone_event", "zone_lockout",
	} {
		deleteRows(t, d.SQL, table+" WHERE zone_id < 1000")
	}
	deleteRows(t, d.SQL, "zone_master WHERE id < 1000")
	deleteRows(t, d.SQL, "zone_attempt WHERE attempt_id NOT LIKE 'cluster-%'")
	return portableBench{explainedBench{bench{nil, store, d, store}.asking(store), t}}
}

func TestClusterStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	servicetest.Exercise(t, new(exercised).open, servicetest.AttemptIDsOfShards)
}

// awkwardKeys lie on shards, too.
func awkwardKeys() []string {
	keys := []string{
		"a", "A", "é", "e\u0301", "😀", "it's", `"`, `\`, `\'`, "`", "a ", " a", "a  ", "%", "_", "0x41", "NULL", "null", "1",
		"01", "1.0",
		"ß", "ss", "ﬁ", "\u00a0", "日本語", "a;b", "--", "/*x*/", "{", "}", ":v1", "?", "@x", "$1", strings.Repeat("é", 255),
		strings.Repeat("x", 255), "2001:db8::/64", "203.0.113.7", "-80", "80-",
	}
	for i := range 60 {
		keys = append(keys, fmt.Sprintf("user%d@example.org", i))
	}
	return keys
}

func TestClusterKeyShardIsThatOfVindex(t *testing.T) {
	t.Parallel()
	zone := service.Zone{ID: 1000, Description: "shards", Rate: 100, Window: time.Hour}
	d, store := clusterStand(t, zone)
	vindex := sqlSession(t, d, "USE velocityd_buckets")
	decide(t, store, check(service.Bucket{ZoneID: zone.ID, Key: "first"}))
	names := []string{"-80", "80-"}
	seen := map[int]bool{}
	for _, key := range awkwardKeys() {
		var shard, id string
		quoted := "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(key) + "'"
		if err := vindex.QueryRowContext(t.Context(), "SELECT shard, hex_keyspace_id FROM xxhash WHERE id = "+quoted).Scan(
			&shard, &id); err != nil {
			t.Fatalf("%q: %v", key, err)
		}
		place, shards := store.ShardOf(service.Bucket{ZoneID: zone.ID, Key: key})
		if own := session.KeyspaceID(key); shards != 2 || names[place] != shard || fmt.Sprintf("%x", own) != id {
			t.Errorf("%q: got shard %d of %d and id %x, want %s and %s", key, place, shards, own, shard, id)
		}
		seen[place] = true
		// A batch must find its rows where it has written them.
		bucket := service.Bucket{ZoneID: zone.ID, Key: key}
		for n := 1; n <= 2; n++ {
			d, err := ask(t.Context(), store, check(bucket))
			if err != nil || d.Verdicts[0].Velocity != n {
				t.Errorf("%q: check %d: got %+v, %v", key, n, d, err)
			}
		}
	}
	if len(seen) != 2 {
		t.Errorf("the keys lie on %d shards, want 2", len(seen))
	}
}

// A vtgate can be told to keep each transaction on one shard, and so can a session.
func TestClusterSessionsMayAlwaysWriteToSeveralShards(t *testing.T) {
	t.Parallel()
	_, store := clusterStand(t)
	err := store.onCheckConn(t.Context(), func(ctx context.Context, conn *session.Conn) (bool, error) {
		return true, conn.Each(ctx, 1, "SELECT @@transaction_mode", func(row []driver.Value) error {
			if mode := session.Text(row[0]); mode != "MULTI" {
				t.Errorf("transaction_mode is %s, want MULTI", mode)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestClusterHeldBucketHarmsItselfOnly(t *testing.T) {
	t.Parallel()
	zone := service.Zone{ID: 1003, Description: "held", Rate: 5, Window: time.Hour}
	d, store := clusterStand(t, zone)
	keys := keysOfBothShards("held", 4)
	bucket := func(i int) service.Bucket { return service.Bucket{ZoneID: zone.ID, Key: keys[i]} }
	all := slices.Concat(check(bucket(0)), check(bucket(2)), check(bucket(1)), check(bucket(3), bucket(0)))
	if _, err := store.CheckAll(t.Context(), service.Call{Checks: all, NoWait: true}); err != nil { // makes the rows
		t.Fatal(err)
	}
	tx, err := d.SQL.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.Exec("SELECT lockout_us FROM zone_bucket_lock WHERE zone_id = ? AND bucket_key = '"+keys[0]+
		"' FOR UPDATE", zone.ID); err != nil {
		t.Fatal(err)
	}
	decisions, err := store.CheckAll(t.Context(), service.Call{Checks: all, NoWait: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, held := range []bool{true, false, false, true} {
		if got := errors.Is(decisions[i].Err, service.ErrHeld); got != held || !held && decisions[i].Err != nil {
			t.Errorf("check %d: got %v, want held=%v", i, decisions[i].Err, held)
		}
	}
}

// TestClusterBatchStatementsNeverAskAllShards asks vtgate how it would carry out every kind of
// statement that a batch sends.
func TestClusterBatchStatementsNeverAskAllShards(t *testing.T) {
	t.Parallel()
	_, store := clusterStand(t)
	var checks []service.Check
	for _, zoneID := range []int64{1006, 1007} {
		for _, key := range keysOfBothShards("plan", 4) {
			checks = append(checks,
				service.Check{Buckets: []service.Bucket{{ZoneID: zoneID, Key: key}}, AttemptID: fmt.Sprint("plan-", zoneID, key)})
		}
	}
	err := store.onCheckConn(t.Context(), func(ctx context.Context, conn *session.Conn) (bool, error) {
		if err := store.knowShards(ctx, conn); err != nil {
			return false, err
		}
		for _, statement := range statementsOf(store, conn, checks) {
			plan := new(strings.Builder)
			err := conn.Each(ctx, 1, "VEXPLAIN PLAN "+statement,
				func(row []driver.Value) error { plan.WriteString(session.Text(row[0])); return nil })
			if err != nil {
				return false, fmt.Errorf("%.300s: %w", statement, err)
			}
			for _, variant := range []string{"Scatter", "MultiShard", "Broadcast"} {
				if strings.Contains(plan.String(), variant) {
					t.Errorf("%.300s: %s in %s", statement, variant, plan)
				}
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// statementsOf returns the statements that a batch of checks may send besides its transaction's begin and end.
func statementsOf(store *Store, conn *session.Conn, checks []service.Check) []string {
	b := newBatch(store.cache, conn, service.Call{Checks: checks})
	now := time.Now()
	b.now, b.known.supposed, b.known.present, b.known.idStep = now, now, b.zoneIDs, 1
	for _, zoneID := range b.zoneIDs {
		b.known.plans[zoneID] = zonePlan{known: true, term: service.Term{Window: time.Second}, overridden: true}
	}
	var r session.Reading
	b.lock(&r, b.buckets, " FOR UPDATE SKIP LOCKED;")
	b.makeRows(&r, b.buckets)
	b.read(&r)
	var limits []limit
	for i, bucket := range b.buckets {
		zone := service.Zone{ID: bucket.ZoneID, Rate: 500, Window: time.Hour, Lockout: time.Hour}
		b.known.zones[zone.ID], b.ledger.Zones[zone.ID] = lockedZone{Zone: zone}, zone
		limits = append(limits, limit{place: i, bucket: bucket, rate: 500, since: now.Add(-time.Hour), steady: true})
	}
	b.count(&r, limits)
	for _, l := range limits {
		b.of[l.place].tally = &tally{from: now.Add(-2 * time.Hour), until: now.Add(-time.Minute), countedAt: now}
		b.ledger.Attempts[checks[0].AttemptID] = service.Attempt{}
	}
	for i := range b.ledger.Buckets {
		b.ledger.Buckets[i].Velocity = nil
	}
	b.count(&r, limits)
	b.countBounded(&r, limits[0])
	ruling := service.Decide(now, b.ledger, checks)
	ruling.Lockouts = map[service.Bucket]service.Lockout{limits[0].bucket: {Until: now}}
	for _, l := range limits {
		b.of[l.place].renewed = &tally{until: now}
	}
	b.insertTxns(&r.Packet, &ruling)
	b.updateLockouts(&r.Packet, &ruling)
	b.rememberAttempts(&r.Packet, &ruling)
	b.writeTallies(&r.Packet, &ruling)
	return strings.Split(strings.TrimSuffix(string(r.Text), ";"), ";")
}

// TestClusterAttemptOfTwoShardsIsCommittedLast asks where an attempt is remembered: if it were
// committed before a bucket is charged, a COMMIT that ends half-way would leave an answer whose
// retry is let through uncounted.
func TestClusterAttemptOfTwoShardsIsCommittedLast(t *testing.T) {
	t.Parallel()
	low := service.Zone{ID: 1010, Description: "low", Rate: 9, Window: time.Hour}
	high := service.Zone{ID: 1011, Description: "high", Rate: 9, Window: time.Hour}
	d, store := clusterStand(t, low, high)
	deleteRows(t, d.SQL, "zone_attempt WHERE attempt_id LIKE 'cluster-last-%'")
	keys := keysOfBothShards("last", 2)
	for id, buckets := range map[string][]service.Bucket{
		"cluster-last-1": {{ZoneID: low.ID, Key: keys[0]}, {ZoneID: high.ID, Key: keys[1]}},
		"cluster-last-2": {{ZoneID: low.ID, Key: keys[1]}, {ZoneID: high.ID, Key: keys[0]}},
	} {
		decideOne(t, store, []service.Check{{Buckets: buckets, AttemptID: id}})
		var key string
		if err := d.SQL.QueryRow("SELECT bucket_key FROM zone_attempt WHERE attempt_id = ?", id).Scan(&key); err != nil {
			t.Fatal(err)
		}
		if key != keys[1] {
			t.Errorf("%s is remembered beside %s, want it beside %s, on the shard that commits last", id, key, keys[1])
		}
	}
}
