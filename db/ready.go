package db

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
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

const (
	errStack       = 1436
	errNoPartition = 1526
	errNoNextID    = 1467
)

// lastIDs is how many ids before the last one of zone_txn are as good as none: at 10,000
// a second they are used up in two minutes.
const lastIDs = 1 << 20

const noIDsLeft = "the ids of zone_txn are used up: delete the rows with the highest ids, which no check has made, " +
	"and set AUTO_INCREMENT of the table back"

func lookForLastIDs(r *session.Reading) {
	r.SQL(fmt.Sprintf("SELECT id FROM zone_txn FORCE INDEX (PRIMARY) WHERE id > %d LIMIT 1;", uint64(math.MaxUint64-lastIDs)))
	r.Each(1, func([]driver.Value) error { return &UnreadyError{reason: noIDsLeft} })
}

// obstacle is an error of something that a decision needs.
type obstacle struct {
	right  string // what the account needs for it
	object string // on what
	way    string // what is not possible without; empty for checks
	error
}

func (o obstacle) Unwrap() error { return o.error }

// proof collects the statements that prove one thing each, and sends them as one packet.
type proof struct {
	session.Reading
	steps []obstacle // of each result set
}

// add adds the statements that write writes, each with a result set.
func (p *proof) add(right, object string, write func(*session.Reading)) {
	write(&p.Reading)
	for len(p.steps) < len(p.Readers) {
		p.steps = append(p.steps, obstacle{right: right, object: object})
	}
}

// read adds a statement that answers with rows, or with none.
func (p *proof) read(object, statement string) {
	p.add("SELECT", object, func(r *session.Reading) {
		r.SQL(statement).SQL(";")
		r.Skip()
	})
}

// write adds a statement that returns no rows. The row of a SELECT behind it tells that it is done.
func (p *proof) write(right, object, statement string) {
	p.add(right, object, func(r *session.Reading) {
		r.SQL(statement).SQL("; SELECT 1;")
		r.Skip()
	})
}

// ask sends the packet. The error is an obstacle.
func (p *proof) ask(ctx context.Context, conn *session.Conn) error {
	err := p.Send(ctx, conn)
	if err == nil {
		return nil
	}
	at := p.steps[min(p.Answered, len(p.steps)-1)]
	at.error = err
	return at
}

// UnreadyError says why checks cannot be decided, and what to do about it, in words
// that are fit for any caller: they name no host, account or key. It wraps the error
// that it was concluded from, which may.
type UnreadyError struct {
	reason string
	cause  error
}

// NewUnreadyError returns an error with a reason that is fit for any caller, and its cause or nil.
func NewUnreadyError(reason string, cause error) *UnreadyError {
	return &UnreadyError{reason: reason, cause: cause}
}

// Error implements error.
func (u *UnreadyError) Error() string { return u.reason }

// Unwrap returns the cause.
func (u *UnreadyError) Unwrap() error { return u.cause }

// Unready returns the *UnreadyError of an error of connecting or of looking something up
// with ctx, or nil for nil.
func Unready(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var o obstacle
	errors.As(err, &o)
	unready, known := &UnreadyError{cause: err}, new(UnreadyError)
	var told *mysql.MySQLError
	switch {
	case errors.As(err, &known):
		unready.reason = known.reason
	case errors.Is(err, session.ErrOtherDatabase):
		unready.reason = "the address of the database leads to another database than before: restart the service if that is meant, and otherwise take it out of the DSN"
	case errors.Is(err, service.ErrPaused):
		unready.reason = "Vitess is switching traffic to other shards: wait for its end, or look at the workflow (vtctldclient Workflow … list)"
	case errors.Is(err, session.ErrUnlisted):
		unready.reason = "the shards of the buckets are not known: vtgate gets no answer from the cluster's topology server (etcd). " +
			"Instances that have listed them before go on"
	case errors.Is(err, engine.ErrSharded):
		unready.reason = engine.ErrSharded.Error()
	case session.IsNumber(err, errNoNextID):
		unready.reason = noIDsLeft
	case errors.As(err, &told):
		unready.reason = o.reason(told.Number)
	case ctx.Err() != nil:
		unready.reason = "the database did not answer in time"
	case session.IsUnverified(err):
		unready.reason = "the certificate of the database's server is not believed"
	case session.IsLost(err), errors.Is(err, driver.ErrBadConn), errors.Is(err, session.ErrUnsent), errors.Is(err, session.ErrUnreached):
		unready.reason = "the database cannot be reached"
	default:
		unready.reason = "checks cannot be decided"
	}
	return unready
}

// reason says what an engine's error number means for whoever needs the object.
func (o obstacle) reason(number uint16) string {
	o.object = cmp.Or(o.object, "the database")
	isProcedure := strings.HasPrefix(o.object, "procedure ")
	switch {
	case slices.Contains(session.RefusedAccount(), number), o.right == "" && slices.Contains(session.LackingRight(), number):
		return "the database refuses the service's account: look at its password, its host and its rights"
	case number == 1049:
		return "the database does not exist: make it and run 'velocityd migrate up'"
	case slices.Contains([]uint16{1040, 1203, 1226}, number):
		return "the database takes no more connections: raise its limit or close some"
	case slices.Contains(session.ReadOnly(), number):
		return "the database is read-only: let the service connect to the primary, or end read_only and super_read_only there"
	case number == session.NumberLockWait, number == session.NumberNoWait:
		return o.object + " is locked: a change of a table, a backup or FLUSH TABLES WITH READ LOCK is under way and must end"
	case isProcedure && number != 1370 && slices.Contains(session.LackingRight(), number):
		return "the owner (definer) of " + o.object + " lacks a right on its tables: grant it"
	case slices.Contains(session.LackingRight(), number):
		return "the service's account lacks the right " + o.right + " on " + o.object + ": grant it"
	case number == session.NumberNoSuchProcedure:
		return o.object + ", or one that it calls, is missing: run 'velocityd migrate up' as the owner of the schema"
	case number == 1449:
		return "the owner (definer) of " + o.object + " does not exist: create that account again with the rights of the schema's owner, " +
			"or run 'velocityd migrate up' as another account, which is the owner then"
	case number == session.NumberNoSuchTable && isProcedure:
		return "a table that " + o.object + " uses is missing: rename it back, or restore it"
	case number == session.NumberNoSuchTable:
		return o.object + " is missing: rename it back, restore it or, on Vitess, run 'velocityd migrate up'"
	case number == session.NumberAmbiguous:
		return "another keyspace has a table of the same name: keep it apart by require_explicit_routing in the vschema of that keyspace"
	case number == errStack:
		return "the server's thread_stack is too small for " + cmp.Or(o.way, "checks") + ": set it to 1M in its configuration, and start it again"
	case number == errNoPartition:
		return "zone_txn has no partition for the txns of now: run ALTER TABLE zone_txn ADD PARTITION (PARTITION later VALUES LESS THAN (MAXVALUE))"
	case slices.Contains([]uint16{1054, 1136, 1176, 1318}, number):
		return o.object + " is not as this program needs it: 'velocityd doctor' names what is different, and what mends it"
	}
	return fmt.Sprintf("%s fail: the database answers with error %d", cmp.Or(o.way, "checks"), number)
}
