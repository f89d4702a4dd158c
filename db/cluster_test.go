//go:build cluster

package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// The tests with the build tag cluster need a Vitess cluster with the tables of this program,
// and share it: `make test-cluster` starts one and runs those that are named TestCluster….
// Each uses zones of its own.

// clusterDSN returns the DSN of the cluster, which VELOCITY_CLUSTER_DSN names.
func clusterDSN(t *testing.T) string {
	t.Helper()
	dsn := os.Getenv("VELOCITY_CLUSTER_DSN")
	if dsn == "" {
		t.Fatal("VELOCITY_CLUSTER_DSN names no cluster: run make test-cluster")
	}
	return dsn
}

// overCluster returns a pool of connections to the first vtgate of the cluster. Its sessions
// find a table in whichever keyspace has it.
func overCluster(t *testing.T) *sql.DB {
	t.Helper()
	return firstGate(t, clusterDSN(t))
}

// firstGate returns a pool of connections to the first vtgate of a DSN.
func firstGate(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	// The driver knows one address a DSN.
	before, addresses, _ := strings.Cut(dsn, "(")
	addresses, after, _ := strings.Cut(addresses, ")")
	first, _, _ := strings.Cut(addresses, ",")
	cfg, err := mysql.ParseDSN(before + "(" + first + ")" + after)
	if err != nil {
		t.Fatal(err)
	}
	cfg.DBName, cfg.InterpolateParams, cfg.MultiStatements, cfg.ParseTime = "@primary", true, true, true
	// Otherwise a DELETE of some zones' rows locks the gaps beside them on both shards, and tests
	// that insert into other zones deadlock with it.
	cfg.Params = map[string]string{"transaction_isolation": "'READ-COMMITTED'"}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	pool := sql.OpenDB(connector)
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// clusterStand returns the database of the cluster with these zones, whose buckets have no rows, and a store on it.
func clusterStand(t *testing.T, zones ...service.Zone) (*enginetest.Database, *Store) {
	t.Helper()
	d := &enginetest.Database{DSN: clusterDSN(t), SQL: overCluster(t)}
	for _, zone := range zones {
		for _, table := range []string{"zone_txn", "zone_bucket_lock"} {
			deleteRows(t, d.SQL, table+" WHERE zone_id = ?", zone.ID)
		}
		d.SetZone(t, zone)
	}
	return d, connect(t, d, session.Options{LockWait: 10 * time.Second})
}

// keyOn returns the key of a prefix and a number that lies on one of the two shards.
func keyOn(shard int, prefix string, number int64) string {
	for salt := 0; ; salt++ {
		key := fmt.Sprintf("%s-%d-%d", prefix, number, salt)
		if twoShards().Of(service.Bucket{Key: key}) == shard {
			return key
		}
	}
}

// keysOfBothShards returns n keys that lie on the first and on the second shard by turns.
func keysOfBothShards(prefix string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, keyOn(i%2, prefix, int64(i)))
	}
	return keys
}

// insertTxns returns an INSERT of a txn in each of the buckets.
func insertTxns(zoneID int64, keys []string) string {
	rows := make([]string, len(keys))
	for i, key := range keys {
		rows[i] = fmt.Sprintf("(UTC_TIMESTAMP(6), %d, '%s', FALSE, FALSE, TRUE)", zoneID, key)
	}
	return "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) VALUES " +
		strings.Join(rows, ", ")
}

func TestClusterInsertHasConsecutiveIDsOverShards(t *testing.T) {
	t.Parallel()
	const zoneID, writers, inserts, rows = 900_001, 8, 25, 20
	pool := overCluster(t)
	deleteRows(t, pool, "zone_txn WHERE zone_id = ?", zoneID)
	keys := keysOfBothShards("ids", rows)
	var mu sync.Mutex
	var firsts []int64
	atOnce(writers, func(int) {
		for range inserts {
			result, err := pool.Exec(insertTxns(zoneID, keys))
			if err != nil {
				t.Error(err)
				return
			}
			first, err := result.LastInsertId()
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			firsts = append(firsts, first)
			mu.Unlock()
		}
	})
	byKey := txnIDs(t, pool, zoneID)
	var all []int64
	for _, ids := range byKey {
		all = append(all, ids...)
	}
	slices.Sort(all)
	if total := len(all); total != writers*inserts*rows || len(slices.Compact(all)) != total {
		t.Errorf("%d txns, of them %d with an id of their own; want %d of both", total, len(slices.Compact(all)),
			writers*inserts*rows)
	}
	for _, first := range firsts {
		for i, key := range keys {
			if want := first + int64(i); !slices.Contains(byKey[key], want) {
				t.Fatalf("an INSERT answered %d: row %d of it, in bucket %s, does not have the id %d", first, i, key, want)
			}
		}
	}
}

func TestClusterPacketAnswersFirstIDOfEachInsert(t *testing.T) {
	t.Parallel()
	const zoneID = 900_002
	pool := overCluster(t)
	deleteRows(t, pool, "zone_txn WHERE zone_id = ?", zoneID)
	keys := keysOfBothShards("packet", 20)
	conn, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	var firsts []int64
	packet := strings.Join([]string{"BEGIN", insertTxns(zoneID, keys[:3]), insertTxns(zoneID, keys[3:]), "COMMIT"}, "; ")
	err = conn.Raw(func(driverConn any) error {
		result, err := driverConn.(interface {
			ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error)
		}).ExecContext(t.Context(), packet, nil)
		if err != nil {
			return err
		}
		firsts = result.(mysql.Result).AllLastInsertIds()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	byKey := txnIDs(t, pool, zoneID)
	want := []int64{0, byKey[keys[0]][0], byKey[keys[3]][0], 0}
	if !slices.Equal(firsts, want) {
		t.Errorf("the statements of a packet answer the ids %v, want %v", firsts, want)
	}
}

// txnIDs returns the ids of a zone's txns by bucket, in rising order.
func txnIDs(t *testing.T, pool *sql.DB, zoneID int64) map[string][]int64 {
	t.Helper()
	var rows []struct {
		Key string `db:"bucket_key"`
		ID  int64
	}
	if err := sqlx.NewDb(pool, "mysql").Select(&rows, "SELECT bucket_key, id FROM zone_txn WHERE zone_id = ? ORDER BY id",
		zoneID); err != nil {
		t.Fatal(err)
	}
	ids := map[string][]int64{}
	for _, row := range rows {
		ids[row.Key] = append(ids[row.Key], row.ID)
	}
	return ids
}
