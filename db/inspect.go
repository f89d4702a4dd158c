package db

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"time"

	"velocityd/db/engine"
	"velocityd/db/session"
	"velocityd/service"
)

// Inspection is what a database and its server are like, for somebody who judges it. It
// holds no password and no bucket key.
type Inspection struct {
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
	Tables []TableSize
	// Shards are those of the buckets, in order. None means that there are none.
	Shards []Shard
	// Partitions are those of zone_txn, in order. None means that it has none.
	Partitions []Partition
	// Plans are how the engine carries out the statements that decide.
	Plans []Plan
	// FirstTxn is when the oldest txn was recorded; zero if there is none.
	FirstTxn time.Time
	// ExpiredAttempts is how many rows of zone_attempt expired more than a day ago, and no
	// more than MostExpired.
	ExpiredAttempts int64
	Retention       Retention
	// Overlooked is how many overrides checks ignore, because zone_master.overridden or
	// zone_override_prefix_length does not mention them: tables were restored separately. It is -1 if
	// they cannot be read.
	Overlooked int64
}

// MostExpired is where the counting of expired attempts ends.
const MostExpired = 100_000

// TableSize is the engine's estimate of a table.
type TableSize struct {
	Name        string
	Rows, Bytes int64
}

// Size returns the estimate of one table; zero if there is no such table.
func (i Inspection) Size(table string) TableSize {
	if at := slices.IndexFunc(i.Tables, func(t TableSize) bool { return t.Name == table }); at >= 0 {
		return i.Tables[at]
	}
	return TableSize{}
}

// Retention holds the policy by which old rows leave, and the last runs. It is empty if the account may not read them.
type Retention struct {
	// KeepDays and MinimumDays are those of retention_policy.
	KeepDays, MinimumDays int64
	// Tasks have no times but SucceededAt.
	Tasks []service.RetentionTask
}

// SucceededAt is when any task succeeded last; zero if none ever has.
func (r Retention) SucceededAt() (last time.Time) {
	for _, task := range r.Tasks {
		if task.SucceededAt.After(last) {
			last = task.SucceededAt
		}
	}
	return last
}

// Partition is one of zone_txn.
type Partition struct {
	Name string
	// Before is the end of its txns; zero means that it has no end.
	Before time.Time
}

// Inspect looks at the database as it is, at the server's settings, and at the account's
// grants. It reads no txn but the oldest, and changes nothing. Errors are those of look-ups.
func (p *Probe) Inspect(ctx context.Context) (Inspection, error) {
	var i Inspection
	err := p.onConn(ctx, func(ctx context.Context, conn *session.Conn) error {
		i.Engine, i.IsMariaDB = conn.Engine, conn.IsMariaDB
		looks := []func(context.Context, *session.Conn) error{
			i.readClock, i.readServer, i.readGrants, i.readTables, i.readAges, i.readRetention, i.readOverlooked,
		}
		if conn.Engine == engine.Vitess {
			looks = []func(context.Context, *session.Conn) error{i.readClock, i.readVitess, i.readAges, i.readRetention, i.readOverlooked}
		}
		for _, look := range looks {
			if err := look(ctx, conn); err != nil {
				return err
			}
		}
		if !conn.Engine.HasRoutines() {
			i.Database = p.keyspace
		}
		i.Plans = explainDecision(ctx, conn)
		return nil
	})
	if err != nil {
		return Inspection{}, fmt.Errorf("inspect database: %w", session.LookupError(err))
	}
	return i, nil
}

// readClock asks for the clock of decisions, in a query on a table: behind vtgate that is the
// clock of the unsharded keyspace, and not vtgate's own.
func (i *Inspection) readClock(ctx context.Context, conn *session.Conn) error {
	var r session.Reading
	asked := time.Now()
	r.SQL("SELECT UTC_TIMESTAMP(6), DATABASE() FROM schema_migrations")
	r.Each(2, func(row []driver.Value) (err error) {
		i.Database = session.Text(row[1])
		i.Now, err = session.AsInstant(row[0])
		return err
	})
	if err := r.Send(ctx, conn); err != nil {
		return err
	}
	if i.Now.IsZero() {
		return errNoClock
	}
	i.ClockError = time.Since(asked)
	i.ClockAhead = i.Now.Sub(asked.Add(i.ClockError / 2))
	return nil
}

// readVitess asks vtgate for its version and for the shards of the buckets. It can tell neither the
// tablets' settings nor the account's grants, nor sizes of tables.
func (i *Inspection) readVitess(ctx context.Context, conn *session.Conn) (err error) {
	var r session.Reading
	r.SQL("SELECT @@version, @@version_comment")
	r.Each(2, func(row []driver.Value) error {
		i.Version = session.Text(row[0]) + ", " + session.Text(row[1])
		return nil
	})
	if err := r.Send(ctx, conn); err != nil {
		return err
	}
	i.Shards, err = readShardStates(ctx, conn)
	return err
}

func (i *Inspection) readServer(ctx context.Context, conn *session.Conn) error {
	i.Variables = map[string]string{}
	var r session.Reading
	r.SQL("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'sql_mode', 'time_zone', 'transaction_isolation', 'tx_isolation', " +
		"'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'binlog_format', 'innodb_rollback_on_timeout', 'read_only', " +
		"'max_connections', 'max_allowed_packet', 'wsrep_on', 'tidb_enable_check_constraint', 'tidb_txn_mode')")
	r.Each(2, func(row []driver.Value) error {
		name, value := session.Variable(row)
		i.Variables[name] = value
		return nil
	})
	err := r.Send(ctx, conn)
	i.Version = i.Variables["version"]
	return err
}

func (i *Inspection) readGrants(ctx context.Context, conn *session.Conn) error {
	var r session.Reading
	r.SQL("SHOW GRANTS")
	r.Each(1, func(row []driver.Value) error {
		line := session.Text(row[0])
		// MariaDB has the hash of the password behind the account's name.
		if before, _, found := strings.Cut(line, " IDENTIFIED "); found {
			line = before
		}
		i.Grants = append(i.Grants, line)
		return nil
	})
	return r.Send(ctx, conn)
}

func (i *Inspection) readTables(ctx context.Context, conn *session.Conn) error {
	var r session.Reading
	r.SQL("SELECT table_name, table_rows, data_length + index_length FROM information_schema.tables " +
		"WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND table_name LIKE 'zone%' ORDER BY table_name;")
	r.Each(3, func(row []driver.Value) error {
		i.Tables = append(i.Tables, TableSize{session.Text(row[0]), session.AsInt(row[1]), session.AsInt(row[2])})
		return nil
	})
	r.SQL("SELECT partition_name, partition_description FROM information_schema.partitions " +
		"WHERE table_schema = DATABASE() AND table_name = 'zone_txn' AND partition_name IS NOT NULL ORDER BY partition_ordinal_position")
	r.Each(2, func(row []driver.Value) error {
		partition := Partition{Name: session.Text(row[0])}
		bound := strings.Trim(session.Text(row[1]), "'")
		for _, layout := range []string{time.DateOnly, time.DateTime, session.InstantFormat} {
			if at, err := time.Parse(layout, bound); err == nil {
				partition.Before = at
			}
		}
		i.Partitions = append(i.Partitions, partition)
		return nil
	})
	return r.Send(ctx, conn)
}

// readAges reads how old the oldest rows are. Without the right to read them, or without their
// tables, it reads nothing: there is enough else to say.
func (i *Inspection) readAges(ctx context.Context, conn *session.Conn) error {
	var r session.Reading
	r.SQL("SELECT created_at FROM zone_txn ORDER BY id LIMIT 1;")
	r.Each(1, func(row []driver.Value) (err error) {
		i.FirstTxn, err = session.AsInstant(row[0])
		return err
	})
	r.SQL(fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM zone_attempt WHERE expires_at < UTC_TIMESTAMP() - INTERVAL 1 DAY LIMIT %d) AS old",
		MostExpired))
	r.Each(1, func(row []driver.Value) error {
		i.ExpiredAttempts = session.AsInt(row[0])
		return nil
	})
	if err := r.Send(ctx, conn); err != nil && !isHidden(err) {
		return err
	}
	return nil
}

func (i *Inspection) readRetention(ctx context.Context, conn *session.Conn) error {
	var r session.Reading
	r.SQL("SELECT keep_days, minimum_days FROM retention_policy WHERE id = 1;")
	r.Each(2, func(row []driver.Value) error {
		i.Retention.KeepDays, i.Retention.MinimumDays = session.AsInt(row[0]), session.AsInt(row[1])
		return nil
	})
	r.SQL("SELECT name, error, backlog, succeeded_at FROM retention_task ORDER BY name")
	r.Each(4, func(row []driver.Value) (err error) {
		task := service.RetentionTask{Name: session.Text(row[0]), Error: session.Text(row[1]), Backlog: session.AsInt(row[2]) != 0}
		task.SucceededAt, err = session.AsInstant(row[3])
		i.Retention.Tasks = append(i.Retention.Tasks, task)
		return err
	})
	if err := r.Send(ctx, conn); err != nil && !isHidden(err) {
		return err
	}
	return nil
}

// readOverlooked counts the overrides that decisions do not look for.
func (i *Inspection) readOverlooked(ctx context.Context, conn *session.Conn) error {
	var r session.Reading
	r.SQL("SELECT COUNT(*) FROM zone_override AS o " +
		"JOIN zone_master AS z ON z.id = o.zone_id " +
		"LEFT JOIN zone_override_prefix_length AS k ON k.zone_id = o.zone_id AND k.family = LEFT(o.network, 1) " +
		"AND k.prefix_length = LENGTH(o.network) - 2 " +
		"WHERE NOT z.overridden OR o.network IS NOT NULL AND k.zone_id IS NULL")
	r.Each(1, func(row []driver.Value) error {
		i.Overlooked = session.AsInt(row[0])
		return nil
	})
	err := r.Send(ctx, conn)
	if isHidden(err) {
		i.Overlooked, err = -1, nil
	}
	return err
}

// isHidden says that a table cannot be read, for want of the right or of the table.
func isHidden(err error) bool {
	return session.IsOneOf(err, append(session.LackingRight(), session.NumberNoSuchTable))
}
