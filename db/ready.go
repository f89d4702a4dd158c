package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/engine"
	"velocityd/db/session"
	"velocityd/service"
)

// Probe looks whether checks can be decided, on a connection that nobody else uses: a service
// whose connections are all at work is busy, and not broken. It waits for no bucket,
// for at most a second for a table, and leaves no row and uses up no id.
type Probe struct {
	conns *sqlx.DB
	// use enters the database anew. A session goes on with the rights on the database
	// that its account had when it entered it last.
	use   string
	hints *hints
	// keyspace is the name of the DSN's database, and address its first address.
	keyspace, address string
	database          *session.Database
	lost              atomic.Pointer[[]string]
}

// OpenProbe returns a probe of the database of o, of which it takes DSN and Reread alone, and
// connects to nothing yet. Errors are those of Open.
func OpenProbe(o session.Options) (*Probe, error) {
	return openProbe(o, session.NewDatabase(o.Engine))
}

func openProbe(o session.Options, database *session.Database) (*Probe, error) {
	o.LockWait = session.DefaultLockWait
	configs, err := session.ParseDSN(o.DSN)
	if err != nil {
		return nil, err
	}
	conns, err := session.Open(o, database, session.ForProbe, 1)
	if err != nil {
		return nil, err
	}
	use := "USE `" + strings.ReplaceAll(configs[0].DBName, "`", "``") + "`"
	return &Probe{
		conns: sqlx.NewDb(conns, "mysql"), use: use, hints: newHints(seenGroup),
		keyspace: configs[0].DBName, address: configs[0].Addr, database: database,
	}, nil
}

// OpenProbe is the function OpenProbe for the database of the store. What the probe finds out of
// the engine and its shards the store knows, too: so a store that has decided nothing yet can
// decide when the probe has succeeded.
func (s *Store) OpenProbe(o session.Options) (*Probe, error) {
	return openProbe(o, s.database)
}

// Close closes the connection, or if it is at work, when it comes back. It does NOT wait for that.
func (p *Probe) Close() error { return p.conns.Close() }

// SchemaVersion is Store.SchemaVersion.
func (p *Probe) SchemaVersion(ctx context.Context) (version uint, dirty bool, err error) {
	return schemaVersion(ctx, p.conns)
}

// Prove goes the whole way of a decision, in both forms, as far as can be gone without
// recording anything. It calls the procedures that decide and report, with a zone and
// with reports that do not exist; and it sends a batch's statements in one transaction,
// those that write with a condition that no row meets, and rolls back. What it does
// NOT see is what only a written row shows, such as a full disk. Where there are no procedures
// it sends statements alone. Behind vtgate it asks every shard, and it is enough that one of
// them works: see Lost.
//
// The error is an *UnreadyError. ctx should have a deadline of two seconds or more.
func (p *Probe) Prove(ctx context.Context) error {
	until := rehearsalEnd(ctx)
	return p.proveBy(ctx, true, func(ctx context.Context, conn *session.Conn) error {
		if err := p.proveChecks(ctx, conn); err != nil {
			return err
		}
		return proveReport(ctx, conn, until)
	})
}

// ProveChecks is Prove for what decides checks alone.
func (p *Probe) ProveChecks(ctx context.Context) error {
	until := rehearsalEnd(ctx)
	return p.proveBy(ctx, false, func(ctx context.Context, conn *session.Conn) error {
		if err := p.proveChecks(ctx, conn); err != nil {
			return err
		}
		return rehearseWay(ctx, conn, until, "check", 0)
	})
}

// Engine returns the engine of the database. It connects if no connection was made yet. Errors
// are those of look-ups.
func (p *Probe) Engine(ctx context.Context) (engine.Engine, error) {
	if engine := p.database.Engine(); engine != "" {
		return engine, nil
	}
	err := p.onConn(ctx, func(context.Context, *session.Conn) error { return nil })
	if err != nil {
		return "", fmt.Errorf("look for the engine: %w", session.LookupError(err))
	}
	return p.database.Engine(), nil
}

// proveBy proves by prove where there are procedures, and elsewhere by provePortable, with the
// statements of reports or without them.
func (p *Probe) proveBy(ctx context.Context, reports bool, prove func(context.Context, *session.Conn) error) error {
	const longestPause = 50 * time.Millisecond
	for try := 1; ; try++ {
		var of engine.Engine
		err := p.onConn(ctx, func(ctx context.Context, conn *session.Conn) error {
			if of = conn.Engine; of.HasRoutines() {
				return prove(ctx, conn)
			}
			return p.provePortable(ctx, conn, reports)
		})
		if errors.Is(err, errRowsLocked) {
			err = nil
		}
		if err == nil && of == engine.Vitess {
			err = p.proveShards(ctx, reports)
		}
		// A fault after which a check is tried again, such as a procedure that is being replaced,
		// lets the probe try again, too. A lock that was waited for was waited for enough.
		f := session.FaultOf(err)
		if err == nil || session.IsNumber(err, session.NumberLockWait) || try >= f.Tries || !pause(ctx, rand.N(longestPause)) {
			return Unready(ctx, err)
		}
	}
}

// Describe returns the rows of CALL describe_schema: what the database has of procedures, triggers,
// views, keys and constraints, as the engine keeps it. The error is an *UnreadyError.
func (p *Probe) Describe(ctx context.Context) (rows [][]string, err error) {
	err = p.onConn(ctx, func(ctx context.Context, conn *session.Conn) error {
		return conn.Each(ctx, 6, "CALL describe_schema()", func(row []driver.Value) error {
			cells := make([]string, len(row))
			for i, cell := range row {
				cells[i] = session.Text(cell)
			}
			rows = append(rows, cells)
			return nil
		})
	})
	if err != nil {
		return nil, Unready(ctx, obstacle{right: "EXECUTE", object: "procedure describe_schema", way: "looks at the schema", error: err})
	}
	return rows, nil
}

// onConn does something on the one connection, until the deadline of ctx, and gives
// the connection up if that fails: the engine then takes back what was begun. A
// statement that waits for a table there ends by itself within a second.
func (p *Probe) onConn(ctx context.Context, do func(context.Context, *session.Conn) error) error {
	conn, err := p.conns.Conn(ctx)
	if err != nil {
		return fmt.Errorf("%w: no connection: %w", session.ErrUnsent, err)
	}
	defer conn.Close()
	own, err := session.Of(conn)
	if err == nil {
		err = own.Within(ctx, do)
	}
	if err != nil {
		session.Discard(conn)
	}
	return err
}

// noBucket is in a zone that cannot exist. Its key is an address, so that networks are
// asked for, too.
func noBucket() service.Bucket { return service.Bucket{ZoneID: 0, Key: "0.0.0.0"} }

// batchOfNoZone returns a batch of checks in the zone of noBucket. It reads all that a batch can read.
func batchOfNoZone(conn *session.Conn, hints *hints, checks ...service.Check) *batch {
	b, id := newBatch(hints, conn, service.Call{Checks: checks}), noBucket().ZoneID
	b.known.plans[id] = zonePlan{
		known: true, term: service.Term{Window: time.Second}, overridden: true, networks: true, hasSeries: true,
		lengths: []prefixLength{{id, 4, 32}}, wholeRule: true, open: openPlan{most: 1, reserve: time.Second},
		secrets: service.Term{Window: time.Second},
	}
	return b
}

func (p *Probe) proveChecks(ctx context.Context, conn *session.Conn) error {
	if _, err := conn.ExecContext(ctx, p.use, nil); err != nil {
		return err
	}
	if err := proveCheck(ctx, conn); err != nil {
		return err
	}
	return proveBatch(ctx, conn, p.hints)
}

// proveCheck calls what decides a lone check.
func proveCheck(ctx context.Context, conn *session.Conn) error {
	_, err := callByRule(ctx, conn, service.Check{Buckets: []service.Bucket{noBucket()}}, false)
	switch {
	case session.IsNumber(err, session.NumberUnknown): // as it answers after it has looked for the zone
		return nil
	case err == nil:
		err = errors.New("a check of a zone that does not exist was decided")
	}
	return obstacle{right: "EXECUTE", object: "procedure check_velocity_by_rule", error: err}
}

// proveReport calls what records outcomes. Its rehearsal writes all that the one of a check writes.
func proveReport(ctx context.Context, conn *session.Conn, until time.Time) error {
	if err := proveCall(ctx, conn, "report_outcomes", "CALL report_outcomes('[]')"); err != nil {
		return err
	}
	return rehearseWay(ctx, conn, until, "report", 2)
}

// proveCall calls a procedure.
func proveCall(ctx context.Context, conn *session.Conn, procedure, statement string) error {
	var p proof
	p.add("EXECUTE", "procedure "+procedure, func(r *session.Reading) {
		r.SQL(statement)
		r.Skip()
	})
	return p.ask(ctx, conn)
}

// proveBatch sends what a batch sends, as one packet.
func proveBatch(ctx context.Context, conn *session.Conn, hints *hints) error {
	b := batchOfNoZone(conn, hints, service.Check{Buckets: []service.Bucket{noBucket()}, AttemptID: "readyz", SecretHash: "of-readyz"})
	var p proof
	b.open(&p.Reading)
	p.add("SELECT", "table zone_bucket_lock", func(r *session.Reading) { b.lock(r, b.buckets, " FOR UPDATE SKIP LOCKED;") })
	p.read("table velocity_identity", "SELECT value FROM velocity_identity LIMIT 1")
	p.add("SELECT", "table zone_master", b.readZones)
	p.add("SELECT", "tables zone_override and zone_override_prefix_length", b.readOverrides)
	p.add("SELECT", "table zone_attempt", b.readAttempts)
	p.add("SELECT", "table zone_bucket_lock", b.readSeries)
	p.add("SELECT", "table zone_txn", b.listTxns)
	p.add("SELECT", "table zone_txn", b.listOpen)
	p.add("SELECT", "tables zone_txn and zone_bucket_lock", b.readImprints)
	p.add("SELECT", "table zone_txn", lookForLastIDs)
	p.write("INSERT", "table zone_bucket_lock", nothingInto("zone_bucket_lock", "zone_id, bucket_key"))
	p.write("UPDATE", "table zone_bucket_lock", "UPDATE zone_bucket_lock SET locked_until = NULL, lockout_us = 0, lockout_shadow = FALSE, "+
		"tally = NULL, tally_from = NULL, tally_until = NULL, tallied_at = NULL, "+
		"blocked_began = NULL, blocked_txns = NULL, blocked_txn_id = NULL, blocked_txn_at = NULL, blocked_reason = NULL, blocked_override_id = NULL, "+
		"imprint_key = NULL, imprint_until = NULL WHERE FALSE")
	p.write("INSERT", "table zone_txn", nothingInto("zone_txn", allTxnRowColumns+imprintColumn))
	p.write("INSERT", "table zone_attempt", nothingInto("zone_attempt", dialectOf(conn.Engine).attemptColumns()))
	p.write("EXECUTE", "procedure forget_attempts", "CALL forget_attempts('[]')")
	p.write("EXECUTE", "procedure repeat_txns", "CALL repeat_txns('[]', UTC_TIMESTAMP(6))")
	b.reset(&p.Packet)
	p.SQL("ROLLBACK")
	return p.ask(ctx, conn)
}

// ProveCredentials reads from the table of credentials, without which an instance that asks
// callers who they are can answer nobody. The error is an *UnreadyError.
func (p *Probe) ProveCredentials(ctx context.Context) error {
	return Unready(ctx, p.onConn(ctx, proveCredentials))
}

func proveCredentials(ctx context.Context, conn *session.Conn) error {
	var p proof
	p.read("table access_token", "SELECT id FROM access_token LIMIT 1")
	return p.ask(ctx, conn)
}

// nothingInto is an INSERT of no row. The engine asks for it all that it asks for one
// with rows: rights, locks, and that it is not read-only.
func nothingInto(table, columns string) string {
	return "INSERT INTO " + table + " (" + columns + ") SELECT " + columns + " FROM " + table + " WHERE FALSE"
}

// lastIDs is how many ids before the last one of zone_txn are as good as none: at 10,000
// a second they are used up in two minutes.
const lastIDs = 1 << 20

func lookForLastIDs(r *session.Reading) {
	r.SQL(fmt.Sprintf("SELECT id FROM zone_txn FORCE INDEX (PRIMARY) WHERE id > %d LIMIT 1;", uint64(math.MaxUint64-lastIDs)))
	r.Each(1, func([]driver.Value) error { return &UnreadyError{reason: noIDsLeft} })
}
