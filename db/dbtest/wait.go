package dbtest

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/service"
)

// patience is how long tests wait for what comes by itself, on slow machines
// too.
const patience = 60 * time.Second

// Eventually waits for a state that comes about by itself, and fails the test if
// it does not.
func Eventually(tb testing.TB, what string, reached func() bool) {
	tb.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !reached() {
		select {
		case <-deadline:
			tb.Fatalf("not reached in %s: %s", patience, what)
		case <-tick.C:
		}
	}
}

// Hold takes the lock of a bucket, as a check in progress does, until release
// or the test's end.
func (d *Database) Hold(tb testing.TB, bucket service.Bucket) (release func()) {
	tb.Helper()
	Exec(tb, d.SQL, "INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (?, ?) "+
		"ON DUPLICATE KEY UPDATE zone_id = zone_id", bucket.ZoneID, bucket.Key)
	tx, err := d.SQL.Begin()
	if err != nil {
		tb.Fatal(err)
	}
	Exec(tb, tx, "SELECT 1 FROM zone_bucket_lock WHERE zone_id = ? AND bucket_key = ? FOR UPDATE",
		bucket.ZoneID, bucket.Key)
	release = sync.OnceFunc(func() { _ = tx.Rollback() })
	// Also when the test fails: an open transaction would hold up DROP DATABASE.
	tb.Cleanup(release)
	return release
}

// Transactions counts those on this database, and of them those that wait for a
// lock. It reads the engine's own report, because information_schema.innodb_trx
// is a cache that stays old while several tests poll it.
func (d *Database) Transactions(tb testing.TB) (open, waiting int) {
	tb.Helper()
	var kind, name, report string
	if err := d.SQL.QueryRow("SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &report); err != nil {
		tb.Fatal(err)
	}
	for _, trx := range strings.Split(report, "---TRANSACTION ")[1:] {
		thread := regexp.MustCompile(`(?:MySQL|MariaDB) thread id (\d+)`).FindStringSubmatch(trx)
		if thread == nil || !strings.Contains(trx, ", ACTIVE") {
			continue
		}
		if d.Count(tb, "SELECT COUNT(*) FROM information_schema.processlist WHERE id = ? AND db = DATABASE()", thread[1]) == 0 {
			continue
		}
		open++
		if strings.Contains(trx, "LOCK WAIT") {
			waiting++
		}
	}
	return open, waiting
}

// AwaitWaiting waits until n transactions on this database wait for a lock.
func (d *Database) AwaitWaiting(tb testing.TB, n int) {
	tb.Helper()
	Eventually(tb, "transactions that wait for a lock", func() bool {
		_, waiting := d.Transactions(tb)
		return waiting == n
	})
}
