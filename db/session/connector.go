package session

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/internal/engine"
	"velocityd/service"
)

// Connector opens connections whose session is pinned and then read back, so
// that a proxy or an init_connect that bends it is found at once.
type Connector struct {
	login    *login
	database *Database
	observe  func(Event)   // or nil
	timeout  time.Duration // of one connect
	lockWait time.Duration
	session  map[string]string // session variable → its value, as SQL
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
		lockWait: o.LockWait, session: use.settings(seconds), wanted: wantedSettings(seconds),
		late: make(chan lateConn, max(o.MaxConns, 1)),
	}, nil
}

// patienceKey is the key of a Call's patience in the context in which the pool connects.
type patienceKey struct{}

// WithPatience returns a context in which a pool waits at most so long for a new connection; 0 means
// until the context ends.
func WithPatience(ctx context.Context, patience time.Duration) context.Context {
	if patience == 0 {
		return ctx
	}
	return context.WithValue(ctx, patienceKey{}, patience)
}

// Connect opens one connection and proves its session. For a call whose Patience is limited
// it waits no longer than that. The connecting then goes on, and the next call gets the connection that comes
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

// lateConn is a connection that no caller has yet.
type lateConn struct {
	driver.Conn
	since time.Time
}

// lateLife is how long such a connection is good for. One that lies for longer may have been ended by
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

// Close implements io.Closer, for sql.DB.Close: it closes the connections that no caller has.
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

// connect opens one connection and proves its session. Its errors wrap ErrUnreached.
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
