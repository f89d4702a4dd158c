// Package session connects to the engines: it sets and proves each session, sends packets of
// statements and reads their answers, ends the sessions of callers who have gone, and says by error
// number what a fault means. It must not know zones, overrides or how a check is decided.
package session

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/engine"
	"velocityd/service"
)

// sqlMode makes the engine refuse what it would otherwise cut or bend.
const sqlMode = "STRICT_ALL_TABLES,ONLY_FULL_GROUP_BY,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

// noLimit is the default of sql_select_limit.
const noLimit = "18446744073709551615"

// Use is what the connections of a pool are for.
type Use int

// The uses.
const (
	ForPool  Use = iota // one statement at a time
	ForLanes            // checks: several statements in a packet, whose rows are read as text
	ForProbe            // the same, for a question that waits for nobody long
)

// SilentTx is how long the engine lets a transaction of this service be silent,
// in seconds: a process that hangs between the two packets of a batch loses its
// locks after that.
const SilentTx = 2

// Connector opens connections whose session is pinned and then read back, so
// that a proxy or an init_connect that bends it is found at once.
type Connector struct {
	login    *login
	database *Database
	observe  func(Event)   // or nil
	timeout  time.Duration // of one connect
	lockWait time.Duration
	session  map[string]string // session variable → what it is set to, as SQL
	wanted   map[string]string // session variable → value, or part of it
	late     chan lateConn     // connections that were there after their caller had gone
	closed   atomic.Bool
}

// Driver implements driver.Connector.
func (c *Connector) Driver() driver.Driver { return mysql.MySQLDriver{} }

// NewConnector returns a connector to the database of o, and connects to nothing yet. The error wraps
// service.ErrInvalid if the options are wrong.
func NewConnector(o Options, database *Database, use Use) (*Connector, error) {
	configs, err := ParseDSN(o.DSN)
	if err != nil {
		return nil, err
	}
	if o.LockWait < time.Second || o.LockWait%time.Second != 0 {
		return nil, fmt.Errorf("%w: lock wait must be whole seconds, is %s", service.ErrInvalid, o.LockWait)
	}
	seconds := fmt.Sprint(service.WholeSeconds(o.LockWait))
	timeout := cmp.Or(o.ConnectTimeout, DefaultConnectTimeout)
	for _, cfg := range configs {
		pin(cfg, timeout)
		use.configure(cfg)
	}
	login, err := newLogin(configs, o.Reread)
	if err != nil {
		return nil, err
	}
	database.Shards.Keyspace = configs[0].DBName + engine.BucketsSuffix
	return &Connector{
		login: login, database: database, observe: o.Observe, timeout: timeout,
		lockWait: o.LockWait, session: use.settings(seconds), wanted: wantedSettings(seconds), late: make(chan lateConn, max(o.MaxConns, 1)),
	}, nil
}

// settings returns what a session is set to, as SQL. lockWait is in seconds.
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
	case ForPool:
		session["lock_wait_timeout"] = lockWait
	case ForProbe:
		session["lock_wait_timeout"] = "1"
	case ForLanes:
	}
	return session
}

// configure sets what differs between the uses of connections.
func (u Use) configure(cfg *mysql.Config) {
	cfg.DialFunc = dialPool
	if u != ForPool {
		cfg.MultiStatements = true
		// The engine's error says more than the driver's, which is only that the connection
		// is bad. After it the connection is given up: see endsSession.
		cfg.RejectReadOnly = false
		cfg.ParseTime = false
		// See connection.within.
		cfg.ReadTimeout = 0
		cfg.DialFunc = dialLane
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

// pin sets in a parsed DSN what the DSN may leave out; see parameters. timeout is how
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
	// For what no context watches; every check and look-up has a shorter deadline.
	cfg.ReadTimeout = silenceTimeout
}

// DriverConn is all that database/sql can ask of the driver's connection.
type DriverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// Conn is a session, and what is known of the engine's side of it.
type Conn struct {
	DriverConn
	socket    net.Conn // of a lane
	address   string   // of the server
	serverID  string   // its server_id: an address may lead to another server after a failover
	id        int64    // the server's, for KILL; 0 where there is no KILL
	since     time.Time
	Engine    engine.Engine
	Shards    *Shards
	IsMariaDB bool
	// BoundsEach says that each batch bounds by wait_timeout how long it may be silent. Elsewhere
	// the session has a bound for all its transactions.
	BoundsEach bool
	// MaxPacket is the longest packet that the engine takes, in bytes.
	MaxPacket int64
	// lastTxn is the id of the last txn that was recorded by this connection, the first of several.
	lastTxn uint64
	lastAt  time.Time // the instant of its decision
	// text is memory for the next packet of a batch, which the last one has left.
	text []byte
}

// patienceKey is the key of a Call's patience in the context in which the pool connects.
type patienceKey struct{}

// WithPatience returns a context in which a pool waits at most so long for a new connection; 0 means
// until the context ends.
func WithPatience(ctx context.Context, patience time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, patience)
}

// Connect opens one connection and proves its session. For a call whose Patience is limited
// it waits no longer than that. The connecting then goes on, and the next call gets what comes
// of it: an engine that is slow to connect to is not away for ever.
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	if conn := c.kept(); conn != nil {
		return conn, nil
	}
	patience, _ := ctx.Value(patienceKey{}).(time.Duration)
	if patience == 0 {
		return c.connect(ctx)
	}
	type result struct {
		conn driver.Conn
		err  error
	}
	done := make(chan result) // without room, so that a connection is either taken or kept
	gone := make(chan struct{})
	defer close(gone)
	go func() {
		conn, err := c.connect(context.WithoutCancel(ctx))
		select {
		case done <- result{conn, err}:
		case <-gone:
			c.keep(conn)
		}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.conn, r.err
	case <-timer.C:
		return nil, fmt.Errorf("%w in %s", ErrUnreached, patience)
	}
}

// lateConn is a connection that nobody has got yet.
type lateConn struct {
	driver.Conn
	since time.Time
}

// lateLife is how long such a connection is good for. What lies for longer may have been ended by
// the engine or on the way to it.
const lateLife = 10 * time.Second

// kept returns a connection that came late, or nil if there is none.
func (c *Connector) kept() driver.Conn {
	for {
		select {
		case late := <-c.late:
			if time.Since(late.since) < lateLife {
				return late.Conn
			}
			_ = late.Close()
		default:
			return nil
		}
	}
}

// keep keeps a connection for the next call, if there is room.
func (c *Connector) keep(conn driver.Conn) {
	if conn == nil {
		return
	}
	select {
	case c.late <- lateConn{conn, time.Now()}:
	default:
		_ = conn.Close()
	}
	if c.closed.Load() {
		_ = c.Close()
	}
}

// Close implements io.Closer, for sql.DB.Close: it closes the connections that nobody has got.
func (c *Connector) Close() error {
	c.closed.Store(true)
	for {
		select {
		case conn := <-c.late:
			_ = conn.Close()
		default:
			return nil
		}
	}
}

// connect opens one connection and proves its session. Its errors wrap errUnreached.
func (c *Connector) connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreached, err)
	}
	return conn, nil
}

func (c *Connector) open(ctx context.Context) (driver.Conn, error) {
	// database/sql also connects in the background, without a deadline, and one
	// handshake that is never answered would hold up all others.
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	s := new(Conn)
	_, err := c.login.connect(context.WithValue(ctx, dialling{}, s), func(inner driver.Conn) error {
		var ok bool
		if s.DriverConn, ok = inner.(DriverConn); !ok {
			return errors.New("the driver's connection is not what this package was made for")
		}
		if err := c.prepare(ctx, s); err != nil {
			return err
		}
		err := c.database.identify(ctx, s)
		if errors.Is(err, ErrOtherDatabase) && c.observe != nil {
			c.observe(OtherDatabase)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// prepare sets the session of a new connection and reads it back.
func (c *Connector) prepare(ctx context.Context, s *Conn) error {
	if err := c.meet(ctx, s); err != nil {
		return err
	}
	if s.Engine == engine.Vitess {
		return c.prepareVitess(ctx, s)
	}
	session := c.session
	if s.Engine == engine.TiDB {
		session = maps.Clone(session)
		session["completion_type"] = "'NO_CHAIN'" // TiDB keeps the very text
	}
	found, err := s.set(ctx, session, showVariables)
	if err != nil {
		return err
	}
	if err := s.read(found, c.wanted); err != nil {
		return err
	}
	s.IsMariaDB = strings.Contains(found["version"], "MariaDB")
	bound := silentBound(found["version"])
	if s.BoundsEach = bound == ""; s.BoundsEach {
		return nil
	}
	if _, err := s.ExecContext(ctx, bound, nil); err != nil {
		return fmt.Errorf("bound silent transactions: %w", err)
	}
	return nil
}

// meet finds out which engine the connection leads to. It asks only if nobody has said or seen
// it before: settings that one engine needs another one refuses.
func (c *Connector) meet(ctx context.Context, s *Conn) error {
	of := c.database.Engine()
	if of == "" {
		var version, comment string
		if err := s.Each(ctx, 2, "SELECT @@version, @@version_comment", func(row []driver.Value) error {
			version, comment = Text(row[0]), Text(row[1])
			return nil
		}); err != nil {
			return fmt.Errorf("ask for the engine: %w", err)
		}
		of = c.database.saw(engine.Of(version, comment))
	}
	s.Engine, s.Shards, s.since = of, &c.database.Shards, time.Now()
	return nil
}

// set sets the variables of a session and its isolation level, and returns what ask answers
// about variables then.
func (s *Conn) set(
	ctx context.Context, variables map[string]string, ask func(context.Context, *Conn) (map[string]string, error),
) (found map[string]string, err error) {
	var settings []string
	for name, value := range variables {
		settings = append(settings, name+" = "+value)
	}
	if _, err := s.ExecContext(ctx, "SET "+strings.Join(settings, ", "), nil); err != nil {
		return nil, fmt.Errorf("set session variables: %w", err)
	}
	// As a statement, because the variable is transaction_isolation on MySQL
	// and tx_isolation on MariaDB before 11.1.
	if _, err := s.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil); err != nil {
		return nil, fmt.Errorf("set isolation level: %w", err)
	}
	if found, err = ask(ctx, s); err != nil {
		return nil, fmt.Errorf("read session variables: %w", err)
	}
	return found, nil
}

// errStaleCounts says that a TiDB server would count txns by an older state than that under the
// locks, so that buckets admit more than their rate.
var errStaleCounts = errors.New("tidb_rc_read_check_ts is ON on this TiDB server, by which it would count too few txns: " +
	"SET GLOBAL tidb_rc_read_check_ts = OFF, and take it out of the server's configuration")

// read looks whether the variables of a session are as they are wanted, and takes what the
// session is to know of the engine.
func (s *Conn) read(found, wanted map[string]string) (err error) {
	for name, want := range wanted {
		if !strings.Contains(found[name], want) {
			return fmt.Errorf("session variable %s is %q, must be %q: is a proxy or init_connect changing it?",
				name, found[name], want)
		}
	}
	if s.MaxPacket, err = strconv.ParseInt(found["max_allowed_packet"], 10, 64); err != nil {
		return fmt.Errorf("read max_allowed_packet: %w", err)
	}
	if found["tidb_rc_read_check_ts"] == "ON" {
		return errStaleCounts
	}
	if s.Engine == engine.TiDB {
		return nil // KILL may meet another session on another server, and TiDB sees that a client has gone
	}
	if s.id, err = strconv.ParseInt(found["pseudo_thread_id"], 10, 64); err != nil {
		return fmt.Errorf("read the connection's id: %w", err)
	}
	s.serverID = found["server_id"]
	return nil
}

// showVariables returns the pinned variables and what a session is to know of the
// engine, by the names that variable gives them.
func showVariables(ctx context.Context, s *Conn) (map[string]string, error) {
	found := map[string]string{}
	return found, s.Each(ctx, 2, `
SHOW SESSION VARIABLES
WHERE Variable_name IN ('sql_mode', 'time_zone', 'innodb_lock_wait_timeout', 'eq_range_index_dive_limit', 'autocommit',
                        'completion_type', 'sql_select_limit', 'character_set_client', 'character_set_results',
                        'transaction_isolation', 'tx_isolation', 'version', 'version_comment', 'max_allowed_packet', 'pseudo_thread_id',
                        'server_id', 'tidb_rc_read_check_ts')`, func(row []driver.Value) error {
		name, value := Variable(row)
		found[name] = value
		return nil
	})
}

// Variable reads a row of SHOW VARIABLES. The isolation level has the name "isolation" on all engines.
func Variable(row []driver.Value) (name, value string) {
	name = strings.ToLower(Text(row[0]))
	if name == "transaction_isolation" || name == "tx_isolation" {
		name = "isolation"
	}
	return name, Text(row[1])
}

// silentBound is the statement that lets a session's transactions be silent for silentTx seconds
// at most, or nothing where batches say so each by itself. version is what the engine answers to
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
