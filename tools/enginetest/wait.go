package enginetest

import (
	"database/sql"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/service"
)

// patience bounds the wait of tests for states that come by themselves, on slow machines too.
const patience = 5 * time.Minute

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
	AtEnd(tb, release)
	return release
}

// Session is one connection to a Database.
type Session struct {
	ID        string
	Command   string
	State     string
	Statement string // its first 100 characters, or nothing
}

// Sessions lists the connections to this database. It asks SHOW PROCESSLIST,
// since MySQL's information_schema.processlist fails with 3854 while any session
// of the server runs a statement with a character beyond utf8mb3.
func (d *Database) Sessions(tb testing.TB) []Session {
	tb.Helper()
	return sessionsIn(tb, d.SQL, d.name)
}

func sessionsIn(tb testing.TB, on *sql.DB, name string) []Session {
	tb.Helper()
	rows, err := on.Query("SHOW PROCESSLIST")
	if err != nil {
		tb.Fatal(err)
	}
	defer rows.Close()
	var sessions []Session
	for rows.Next() {
		var user, host string
		var database, state, statement sql.NullString
		var s Session
		var seconds any
		columns := []any{&s.ID, &user, &host, &database, &s.Command, &seconds, &state, &statement, new(any)}
		names, err := rows.Columns()
		if err != nil {
			tb.Fatal(err)
		}
		// MariaDB adds a column, the progress.
		if err := rows.Scan(columns[:len(names)]...); err != nil {
			tb.Fatal(err)
		}
		if database.String == name {
			s.State, s.Statement = state.String, statement.String
			sessions = append(sessions, s)
		}
	}
	if err := rows.Err(); err != nil {
		tb.Fatal(err)
	}
	return sessions
}

// Transactions counts those on this database, and of them those that wait for a
// lock. It reads the engine's own report, because information_schema.innodb_trx
// is a cache that stays old while several tests poll it.
func (d *Database) Transactions(tb testing.TB) (open, waiting int) {
	tb.Helper()
	if d.IsTiDB(tb) {
		err := d.SQL.QueryRow(
			"SELECT COUNT(*), COUNT(IF(state = 'LockWaiting', 1, NULL)) FROM information_schema.tidb_trx WHERE db = ?",
			d.name).Scan(&open, &waiting)
		if err != nil {
			tb.Fatal(err)
		}
		return open, waiting
	}
	var kind, name, report string
	if err := d.SQL.QueryRow("SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &report); err != nil {
		tb.Fatal(err)
	}
	own := make(map[string]bool)
	for _, s := range d.Sessions(tb) {
		own[s.ID] = true
	}
	for _, trx := range strings.Split(report, "---TRANSACTION ")[1:] {
		thread := regexp.MustCompile(`(?:MySQL|MariaDB) thread id (\d+)`).FindStringSubmatch(trx)
		if thread == nil || !own[thread[1]] || !strings.Contains(trx, ", ACTIVE") {
			continue
		}
		open++
		if strings.Contains(trx, "LOCK WAIT") {
			waiting++
		}
	}
	return open, waiting
}

// IsTiDB says that the database is on TiDB, whose transactions SHOW ENGINE INNODB STATUS does not
// tell.
func (d *Database) IsTiDB(tb testing.TB) bool {
	tb.Helper()
	var version string
	if err := d.SQL.QueryRow("SELECT VERSION()").Scan(&version); err != nil {
		tb.Fatal(err)
	}
	return strings.Contains(version, "TiDB")
}

// AwaitNone waits until no transaction is open on this database. An engine may answer a statement, or see a
// connection closed, a moment before it has ended the transaction; a transaction that is left open stays,
// and fails the test.
func (d *Database) AwaitNone(tb testing.TB, after string) {
	tb.Helper()
	Eventually(tb, "no transaction is open after "+after, func() bool {
		open, _ := d.Transactions(tb)
		return open == 0
	})
}

// AwaitWaiting waits until n transactions on this database wait for a lock.
func (d *Database) AwaitWaiting(tb testing.TB, n int) {
	tb.Helper()
	Eventually(tb, "transactions that wait for a lock", func() bool {
		_, waiting := d.Transactions(tb)
		return waiting == n
	})
}
