package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/inspection"
	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/service"
)

// Probe looks whether checks can be decided, on a connection of its own: a service
// whose connections are all at work is busy, and not broken. It waits for no bucket,
// for at most a second for a table, and leaves no row and uses up no id.
type Probe struct {
	conns *sqlx.DB
	turn  chan struct{} // of the one connection that it uses at a time
	// use enters the database anew. A session goes on with the rights on the database
	// that its account had when it entered it last.
	use string
	// keyspace is the name of the DSN's database, and address its first address.
	keyspace, address string
	database          *session.Database
	lost              atomic.Pointer[[]string]
}

// OpenProbe returns a probe of the database of o, of which it takes DSN and Reread alone, and
// connects to nothing yet. Errors are those of Open.
func OpenProbe(o session.Options) (*Probe, error) {
	database := session.NewDatabase(o.Engine)
	spare, err := openSpare(o, database)
	if err != nil {
		return nil, err
	}
	return newProbe(o, spare, database)
}

// newProbe returns a probe that uses one connection of spare at a time.
func newProbe(o session.Options, spare *sql.DB, database *session.Database) (*Probe, error) {
	configs, err := session.ParseDSN(o.DSN)
	if err != nil {
		return nil, err
	}
	use := "USE `" + strings.ReplaceAll(configs[0].DBName, "`", "``") + "`"
	return &Probe{
		conns: sqlx.NewDb(spare, "mysql"), turn: make(chan struct{}, 1), use: use,
		keyspace: configs[0].DBName, address: configs[0].Addr, database: database,
	}, nil
}

// Close closes the connection, or if it is at work, when it comes back. It does NOT wait for that. A store's probe is
// closed by the store.
func (p *Probe) Close() error { return p.conns.Close() }

// SchemaVersion is Store.SchemaVersion.
func (p *Probe) SchemaVersion(ctx context.Context) (version uint, dirty bool, err error) {
	return schemaVersion(ctx, p.conns)
}

// Ready goes the whole way of checks and reports, and leaves nothing. It calls the procedures that
// decide and report, with a zone and with reports that do not exist. It sends the statements of a batch for
// buckets that do not exist, which tell missing rights, tables and columns, and locked tables. And it records an
// attempt in a transaction that it rolls back. Where there are no procedures it sends statements
// alone. Behind vtgate it asks every shard, and it is enough that one of them works: see Lost.
//
// The error is an *UnreadyError. ctx should have a deadline of two seconds or more.
func (p *Probe) Ready(ctx context.Context) error { return p.ready(ctx, true) }

// ReadyForChecks is Ready for checks alone.
func (p *Probe) ReadyForChecks(ctx context.Context) error { return p.ready(ctx, false) }

// ReadyForReleases calls the procedure that releases a bucket. It is no part of Ready, since checks are decided
// without. Where there are no procedures, it does nothing. Errors are those of Ready.
func (p *Probe) ReadyForReleases(ctx context.Context) error {
	return Unready(ctx, p.onConn(ctx, func(ctx context.Context, conn *session.Conn) error {
		return dialectOf(conn.Engine).try(ctx, conn, releasing)
	}))
}

// ReadyForCredentials reads from the table of credentials. An instance that asks callers for a
// credential needs it for each answer. The error is an *UnreadyError.
func (p *Probe) ReadyForCredentials(ctx context.Context) error {
	return Unready(ctx, p.onConn(ctx, func(ctx context.Context, conn *session.Conn) error {
		var r trial
		r.read("SELECT id FROM access_token LIMIT 1")
		return r.ask(ctx, conn)
	}))
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

// ready tries checks and, if reports is true, reports.
func (p *Probe) ready(ctx context.Context, reports bool) error {
	const longestPause = 50 * time.Millisecond
	half := halfOf(ctx)
	for try := 1; ; try++ {
		isVitess := false
		err := p.onConn(ctx, func(ctx context.Context, conn *session.Conn) error {
			if isVitess = conn.Engine == engine.Vitess; !isVitess { // vtgate finds each table by its name
				if _, err := conn.ExecContext(ctx, p.use, nil); err != nil {
					return err
				}
			}
			return tryLimits(ctx, conn, reports)
		})
		switch {
		case err != nil:
		case isVitess:
			err = p.tryShards(ctx, reports)
		default:
			err = p.onConn(ctx, func(ctx context.Context, conn *session.Conn) error {
				return tryBuckets(ctx, conn, []service.Bucket{unusedBucket()}, reports)
			})
			if err == nil {
				err = p.tryRecording(ctx, half)
			}
		}
		// A fault after which a check is tried again, such as a procedure that is being replaced,
		// lets the probe try again, too. A lock that was waited for was waited for enough.
		f := session.FaultOf(err)
		if err == nil || session.IsNumber(err, session.NumberLockWait) || try >= f.Tries ||
			!pause(ctx, rand.N(longestPause)) {
			return Unready(ctx, err)
		}
	}
}

// halfOf returns half of the time that ctx has left.
func halfOf(ctx context.Context) time.Duration {
	if deadline, limited := ctx.Deadline(); limited {
		return time.Until(deadline) / 2
	}
	return time.Minute
}

// onConn does something on the one connection, until the deadline of ctx, and gives
// the connection up if that fails: the engine then rolls back. A
// statement that waits for a table there ends by itself within a second.
func (p *Probe) onConn(ctx context.Context, do func(context.Context, *session.Conn) error) error {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return fmt.Errorf("%w: no connection: %w", session.ErrUnsent, ctx.Err())
	}
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

// onConnFor is onConn with a bound besides.
func (p *Probe) onConnFor(
	ctx context.Context, patience time.Duration, do func(context.Context, *session.Conn) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.onConn(ctx, do)
}

// Describe returns the rows of CALL describe_schema: the database's procedures, triggers,
// views, keys and constraints, as the engine keeps it. The error is an *UnreadyError.
func (p *Probe) Describe(ctx context.Context) ([][]string, error) {
	rows, err := p.list(ctx, 6, "CALL describe_schema()")
	if err != nil {
		return nil,
			Unready(ctx, obstacle{right: "EXECUTE", object: "procedure describe_schema", way: "looks at the schema", error: err})
	}
	return rows, nil
}

// Routines returns the names of the procedures and functions that the account can see: those that it may call. The list
// is empty while another session's change of the schema holds the look up. The error is an *UnreadyError.
func (p *Probe) Routines(ctx context.Context) (names []string, err error) {
	rows, err := p.list(ctx, 1, "SELECT routine_name FROM information_schema.routines WHERE routine_schema = DATABASE()")
	for _, row := range rows {
		names = append(names, row[0])
	}
	if IsHeldUp(err) {
		return nil, nil
	}
	return names, Unready(ctx, err)
}

// list returns the rows of a statement that reads the engine's catalogue. There another session's change of the schema
// can hold it up for a moment.
func (p *Probe) list(ctx context.Context, columns int, statement string) (rows [][]string, err error) {
	const tries = 4
	for range tries {
		rows = nil
		err = p.onConn(ctx, func(ctx context.Context, conn *session.Conn) error {
			return conn.Each(ctx, columns, statement, func(row []driver.Value) error {
				cells := make([]string, len(row))
				for i, cell := range row {
					cells[i] = session.Text(cell)
				}
				rows = append(rows, cells)
				return nil
			})
		})
		if !session.IsNumber(err, session.NumberLockWait) {
			break
		}
	}
	return rows, err
}

// IsHeldUp says that the look that ended in an error of a Probe waited for a lock: it says nothing of the database's
// fitness.
func IsHeldUp(err error) bool { return session.IsNumber(err, session.NumberLockWait) }

// Inspect looks at the database as it is, at the server's settings, at the account's grants, and at the plans of the
// statements of a batch. It reads no txn but the oldest, and changes nothing. Errors are those of look-ups.
func (p *Probe) Inspect(ctx context.Context) (found inspection.Result, err error) {
	err = p.onConn(ctx, func(ctx context.Context, conn *session.Conn) (err error) {
		if found, err = inspection.Read(ctx, conn, p.keyspace); err == nil {
			found.Plans = inspection.Plans(ctx, conn, readings(conn))
		}
		return err
	})
	if err != nil {
		return inspection.Result{}, fmt.Errorf("inspect database: %w", session.LookupError(err))
	}
	return found, nil
}
