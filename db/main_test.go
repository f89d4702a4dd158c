package db

import (
	"context"
	"database/sql"
	"regexp"
	"strings"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/service"
	"velocityd/service/servicetest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// bench is a store together with the database behind it.
type bench struct {
	service.CheckStore
	*dbtest.Database
}

var _ servicetest.Bench = bench{}

// connect returns a pool to a database with the newest schema.
func connect(t testing.TB, d *dbtest.Database, o Options) *Pool {
	t.Helper()
	o.DSN = d.DSN
	pool, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

func zone(id int64, rate int, window time.Duration) service.Zone {
	return service.Zone{ID: id, Description: "test", Rate: rate, Window: window}
}

func check(buckets ...service.Bucket) []service.Check {
	return []service.Check{{Buckets: buckets}}
}

func user(key string) service.Bucket { return service.Bucket{ZoneID: 1, Key: key} }

// hold takes the lock of a bucket, as a check in progress does, until release.
func hold(t *testing.T, d *dbtest.Database, bucket service.Bucket) (release func()) {
	t.Helper()
	dbtest.Exec(t, d.SQL, "INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (?, ?) "+
		"ON DUPLICATE KEY UPDATE zone_id = zone_id", bucket.ZoneID, bucket.Key)
	tx, err := d.SQL.Begin()
	if err != nil {
		t.Fatal(err)
	}
	dbtest.Exec(t, tx, "SELECT 1 FROM zone_bucket_lock WHERE zone_id = ? AND bucket_key = ? FOR UPDATE",
		bucket.ZoneID, bucket.Key)
	// Also when the test fails: an open transaction would hold up DROP DATABASE.
	t.Cleanup(func() { _ = tx.Rollback() })
	return func() {
		t.Helper()
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
}

// transactions counts those on this database, and of them those that wait for a
// lock. It reads the engine's own report, because information_schema.innodb_trx
// is a cache that stays old while several tests poll it.
func transactions(t *testing.T, d *dbtest.Database) (open, waiting int) {
	t.Helper()
	var kind, name, report string
	if err := d.SQL.QueryRow("SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &report); err != nil {
		t.Fatal(err)
	}
	for _, trx := range strings.Split(report, "---TRANSACTION ")[1:] {
		thread := regexp.MustCompile(`(?:MySQL|MariaDB) thread id (\d+)`).FindStringSubmatch(trx)
		if thread == nil || !strings.Contains(trx, ", ACTIVE") {
			continue
		}
		if d.Count(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE id = ? AND db = DATABASE()", thread[1]) == 0 {
			continue
		}
		open++
		if strings.Contains(trx, "LOCK WAIT") {
			waiting++
		}
	}
	return open, waiting
}

// eventually waits for a state of the engine that it brings about by itself.
func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !reached() {
		select {
		case <-deadline:
			t.Fatalf("not reached in 20 s: %s", what)
		case <-tick.C:
		}
	}
}

// session is one plain connection, like an SQL client's.
func session(t *testing.T, d *dbtest.Database, settings ...string) *sql.Conn {
	t.Helper()
	conn, err := d.SQL.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	// Not back to the pool: its settings are the test's own.
	t.Cleanup(func() { _ = conn.Close() })
	for _, setting := range settings {
		dbtest.Exec(t, conn, setting)
	}
	return conn
}

// row is what check_velocity answers.
type row struct {
	blocked          bool
	txnID            uint64
	zoneID           int64
	key              string
	rate, window     int
	remaining, retry int
	checkedAt        time.Time
}

// call is CALL check_velocity by an SQL client.
func call(conn *sql.Conn, bucket service.Bucket) (row, error) {
	var r row
	err := conn.QueryRowContext(context.Background(), "CALL check_velocity(?, ?)", bucket.ZoneID, bucket.Key).
		Scan(&r.blocked, &r.txnID, &r.zoneID, &r.key, &r.rate, &r.window, &r.remaining, &r.retry, &r.checkedAt)
	return r, err
}
