package session

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// sqlMode makes the engine refuse values that it would otherwise cut or bend.
const sqlMode = "STRICT_ALL_TABLES,ONLY_FULL_GROUP_BY,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

// noLimit is the default of sql_select_limit.
const noLimit = "18446744073709551615"

// Use is the use of the connections of a pool.
type Use int

// The uses.
const (
	ForOthers Use = iota // one statement at a time
	ForChecks            // several statements in a packet, whose rows are read as text
	ForProbe             // the same, for a question that waits for no lock long
)

// SilentTx is how long the engine lets a transaction of this service be silent,
// in seconds: a process that hangs between the two packets of a batch loses its
// locks after that.
const SilentTx = 2

// settings returns the settings of a session, as SQL. lockWait is in seconds.
func (u Use) settings(lockWait string) map[string]string {
	session := map[string]string{
		"sql_mode":                 "'" + sqlMode + "'",
		"time_zone":                "'+00:00'",
		"innodb_lock_wait_timeout": lockWait,
		// Lists of keys are looked up one by one. The estimate for each of them would
		// cost more than it could save.
		"eq_range_index_dive_limit": "1",
		// Keys come and go as they are.
		"character_set_client":     "utf8mb4",
		"character_set_connection": "utf8mb4",
		"character_set_results":    "utf8mb4",
		// A COMMIT is the end: another transaction does not begin with it.
		"completion_type": "0",
		// No row of an answer is left out.
		"sql_select_limit": noLimit,
	}
	// For tables that DDL, a backup or FLUSH TABLES WITH READ LOCK holds; in seconds. Checks wait until
	// their deadline, and are ended by KILL.
	switch u {
	case ForOthers:
		session["lock_wait_timeout"] = lockWait
	case ForProbe:
		session["lock_wait_timeout"] = "1"
	case ForChecks:
	}
	return session
}

// configure sets the differences between the uses of connections.
func (u Use) configure(cfg *mysql.Config) {
	cfg.DialFunc = dialForOthers
	if u != ForOthers {
		cfg.MultiStatements = true
		// The engine's error says more than the driver's, which is only that the connection
		// is bad. After it the connection is given up: see EndsSession.
		cfg.RejectReadOnly = false
		cfg.ParseTime = false
		// See connection.within.
		cfg.ReadTimeout = 0
		cfg.DialFunc = dialForChecks
	}
}

// wantedSettings returns the settings that a new session must have. lockWait is in
// seconds.
func wantedSettings(lockWait string) map[string]string {
	return map[string]string{
		"sql_mode":                  "STRICT_ALL_TABLES",
		"time_zone":                 "+00:00",
		"innodb_lock_wait_timeout":  lockWait,
		"eq_range_index_dive_limit": "1",
		"isolation":                 "READ-COMMITTED",
		"autocommit":                "ON",
		"completion_type":           "NO_CHAIN",
		"sql_select_limit":          noLimit,
		// Keys would come back as other keys.
		"character_set_client":  "utf8mb4",
		"character_set_results": "utf8mb4",
	}
}

// pin sets in a parsed DSN the parameters that it may leave out; see parameters. timeout is how
// long one connect may take: a dial gets two thirds of it, so that another address can be dialled, too.
func pin(cfg *mysql.Config, timeout time.Duration) {
	cfg.ParseTime = true
	// One round trip a statement instead of prepare, execute, close.
	cfg.InterpolateParams = true
	// After a failover the old primary is read-only: leave it.
	cfg.RejectReadOnly = true
	// The engine's own limit is read from it; this is the highest that any engine has.
	cfg.MaxAllowedPacket = 1 << 30
	// The driver also returns everything that it would log, and velocityd says nothing twice.
	cfg.Logger = &mysql.NopLogger{}
	cfg.Timeout = cmp.Or(cfg.Timeout, timeout*2/3)
	// For reads and writes that no context watches; every check and look-up has a shorter deadline.
	cfg.ReadTimeout = silenceTimeout
}

// silentBound is the statement that lets a session's transactions be silent for SilentTx seconds
// at most, or nothing where batches say so each by itself. version is the engine's answer to
// VERSION(): an engine that is forced by Options may run on another one. On Vitess the session's
// settings have a bound. On TiDB it also says that a bucket is locked by an INSERT … ON DUPLICATE
// KEY UPDATE that changes nothing: tidb_lock_unchanged_keys may be off globally.
func silentBound(version string) string {
	switch {
	case strings.Contains(version, "MariaDB"):
		// MySQL has no such variable: batches set its wait_timeout.
		return fmt.Sprint("SET SESSION idle_transaction_timeout = ", SilentTx)
	case strings.Contains(version, "TiDB"):
		return fmt.Sprint("SET SESSION tidb_idle_transaction_timeout = ", SilentTx,
			", tidb_txn_mode = 'pessimistic', tidb_lock_unchanged_keys = 1")
	}
	return ""
}
