// Package inspection reads the state of a database and its server: settings, grants, shards, partitions, and the plans
// of given statements. It judges nothing: see cmd/velocityd/doctor.
package inspection

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"
	"time"

	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/service"
)

// Result is the state of a database and its server. It holds no password and no bucket key.
type Result struct {
	// Engine says which of the others can be empty: without procedures there is no IsMariaDB,
	// and vtgate tells no Variables, Grants, Tables and Partitions.
	Engine    engine.Engine
	Version   string
	IsMariaDB bool
	// Variables are settings of the server by their names, as new sessions get them. The
	// isolation level is "isolation" on both engines.
	Variables map[string]string
	// ClockAhead is by how much the engine's clock is ahead of this machine's. It can be
	// wrong by half of ClockError, the time that the question took.
	ClockAhead, ClockError time.Duration
	// Now is the engine's clock.
	Now time.Time
	// Database is the name of the database.
	Database string
	// Grants are the lines of SHOW GRANTS of the account, up to its name.
	Grants []string
	// Rows are the engine's estimates of how many rows tables have.
	Rows map[string]int64
	// Shards are those of the buckets, in order. None means that there are none.
	Shards []session.Shard
	// Partitions are the ends of those of zone_txn, in order. A zero time means that one has no end.
	Partitions []time.Time
	// Plans are how the engine carries out the statements that decide.
	Plans []Plan
	// FirstTxn is when the oldest txn was recorded; zero if there is none.
	FirstTxn time.Time
	// ExpiredAttempts is how many rows of zone_attempt expired more than a day ago, and no
	// more than MostExpired.
	ExpiredAttempts int64
	// KeepDays and MinimumDays are those of retention_policy, and Tasks the last runs of retention, with no times but
	// SucceededAt. They are empty if the account may not read them.
	KeepDays, MinimumDays int64
	Tasks                 []service.RetentionTask
	// Overlooked is how many overrides checks ignore, because zone_master.overridden or
	// zone_override_prefix_length does not mention them: tables were restored separately. It is -1 if
	// they cannot be read.
	Overlooked int64
}

// MostExpired is where the counting of expired attempts ends.
const MostExpired = 100_000

// Read returns the state of the database that conn is connected to, without its plans. keyspace is the name of the
// database in the DSN, which a session of vtgate does not know. It reads no txn but the oldest, and changes nothing.
func Read(ctx context.Context, conn *session.Conn, keyspace string) (Result, error) {
	i := Result{Engine: conn.Engine, IsMariaDB: conn.IsMariaDB}
	if err := i.readClock(ctx, conn); err != nil {
		return Result{}, err
	}
	readings := i.readings()
	if conn.Engine == engine.Vitess {
		i.Database = keyspace
		if err := i.readVitess(ctx, conn); err != nil {
			return Result{}, err
		}
	} else {
		readings = append(readings, i.serverReadings()...)
	}
	for _, r := range readings {
		if err := conn.Each(ctx, r.columns, r.statement, r.row); err != nil && !(r.mayBeHidden && isHidden(err)) {
			return Result{}, err
		}
	}
	return i, nil
}

// readClock asks for the clock of decisions, in a query on a table: behind vtgate that is the
// clock of the unsharded keyspace, and not vtgate's own.
func (i *Result) readClock(ctx context.Context, conn *session.Conn) error {
	asked := time.Now()
	if err := conn.Each(ctx, 2, "SELECT UTC_TIMESTAMP(6), DATABASE() FROM schema_migrations",
		func(row []driver.Value) (err error) {
			i.Database = session.Text(row[1])
			i.Now, err = session.AsInstant(row[0])
			return err
		}); err != nil {
		return err
	}
	if i.Now.IsZero() {
		return session.ErrNoClock
	}
	i.ClockError = time.Since(asked)
	i.ClockAhead = i.Now.Sub(asked.Add(i.ClockError / 2))
	return nil
}

// readVitess asks vtgate for its version and for the shards of the buckets. vtgate does not know the
// tablets' settings, the account's grants and the sizes of tables.
func (i *Result) readVitess(ctx context.Context, conn *session.Conn) (err error) {
	if err := conn.Each(ctx, 2, "SELECT @@version, @@version_comment", func(row []driver.Value) error {
		i.Version = session.Text(row[0]) + ", " + session.Text(row[1])
		return nil
	}); err != nil {
		return err
	}
	i.Shards, err = conn.ShardStates(ctx)
	return err
}

// reading is a statement with a function for its rows, which have so many columns.
type reading struct {
	columns   int
	statement string
	row       func([]driver.Value) error
	// mayBeHidden says that an account without the right, or a database without the table, is told less: there is enough
	// else to say.
	mayBeHidden bool
}

// readings read the tables, on all engines.
func (i *Result) readings() []reading {
	i.Overlooked = -1
	return []reading{
		{1, "SELECT created_at FROM zone_txn ORDER BY id LIMIT 1", func(row []driver.Value) (err error) {
			i.FirstTxn, err = session.AsInstant(row[0])
			return err
		}, true},
		{
			1,
			fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM zone_attempt WHERE expires_at < UTC_TIMESTAMP() - INTERVAL 1 DAY "+
				"LIMIT %d) AS old",
				MostExpired), func(row []driver.Value) error {
				i.ExpiredAttempts = session.AsInt(row[0])
				return nil
			}, true,
		},
		{2, "SELECT keep_days, minimum_days FROM retention_policy WHERE id = 1", func(row []driver.Value) error {
			i.KeepDays, i.MinimumDays = session.AsInt(row[0]), session.AsInt(row[1])
			return nil
		}, true},
		{
			4, "SELECT name, error, backlog, succeeded_at FROM retention_task ORDER BY name",
			func(row []driver.Value) (err error) {
				task := service.RetentionTask{
					Name: session.Text(row[0]), Error: session.Text(row[1]),
					Backlog: session.AsInt(row[2]) != 0,
				}
				task.SucceededAt.Time, err = session.AsInstant(row[3])
				i.Tasks = append(i.Tasks, task)
				return err
			}, true,
		},
		{1, "SELECT COUNT(*) FROM zone_override AS o " +
			"JOIN zone_master AS z ON z.id = o.zone_id " +
			"LEFT JOIN zone_override_prefix_length AS k ON k.zone_id = o.zone_id AND k.family = LEFT(o.network, 1) " +
			"AND k.prefix_length = LENGTH(o.network) - 2 " +
			"WHERE NOT z.overridden OR o.network IS NOT NULL AND k.zone_id IS NULL", func(row []driver.Value) error {
			i.Overlooked = session.AsInt(row[0])
			return nil
		}, true},
	}
}

// serverReadings read a server's settings, grants, sizes and partitions. vtgate tells none of them.
func (i *Result) serverReadings() []reading {
	i.Variables, i.Rows = map[string]string{}, map[string]int64{}
	return []reading{
		{2, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'sql_mode', 'time_zone', 'transaction_isolation', " +
			"'tx_isolation', 'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'binlog_format', " +
			"'innodb_rollback_on_timeout', 'read_only', 'max_connections', 'max_allowed_packet', 'wsrep_on', " +
			"'tidb_enable_check_constraint', 'tidb_txn_mode')", func(row []driver.Value) error {
			name, value := session.Variable(row)
			i.Variables[name] = value
			if name == "version" {
				i.Version = value
			}
			return nil
		}, false},
		{1, "SHOW GRANTS", func(row []driver.Value) error {
			// MariaDB has the hash of the password behind the account's name.
			line, _, _ := strings.Cut(session.Text(row[0]), " IDENTIFIED ")
			i.Grants = append(i.Grants, line)
			return nil
		}, false},
		{
			2, "SELECT table_name, table_rows FROM information_schema.tables " +
				"WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND table_name LIKE 'zone%'",
			func(row []driver.Value) error {
				i.Rows[session.Text(row[0])] = session.AsInt(row[1])
				return nil
			}, false,
		},
		{
			1, "SELECT partition_description FROM information_schema.partitions WHERE table_schema = DATABASE() AND " +
				"table_name = 'zone_txn' AND partition_name IS NOT NULL ORDER BY partition_ordinal_position",
			func(row []driver.Value) error {
				var end time.Time
				bound := strings.Trim(session.Text(row[0]), "'")
				for _, layout := range []string{time.DateOnly, time.DateTime, session.InstantFormat} {
					if at, err := time.Parse(layout, bound); err == nil {
						end = at
					}
				}
				i.Partitions = append(i.Partitions, end)
				return nil
			}, false,
		},
	}
}

// isHidden says that a table cannot be read, for want of the right or of the table.
func isHidden(err error) bool {
	return session.IsOneOf(err, append(session.LackingRight(), session.NumberNoSuchTable))
}
