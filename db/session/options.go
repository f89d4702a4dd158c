package session

import (
	"database/sql"
	"time"

	"velocityd/internal/engine"
)

// Defaults of Options.
const (
	DefaultMaxConns       = 32
	LeastMaxConns         = 3 // for checks, for all else, and for KILL
	DefaultLockWait       = time.Second
	DefaultConnectTimeout = 3 * time.Second
	silenceTimeout        = time.Minute
	connLifetime          = 30 * time.Minute
)

// Options says how to reach the engine.
type Options struct {
	// DSN is in go-sql-driver's form: user:password@tcp(host:3306)/database.
	DSN string
	// Reread returns the DSN as it is now. It is called when the engine refuses the account,
	// and the next connections use its user and password; nothing else of it counts. nil
	// means that the DSN never changes. Several connections may call it one after the other.
	Reread func() (string, error)
	// MaxConns bounds the connections, those whose statement is being killed
	// included; 0 means DefaultMaxConns, and there are LeastMaxConns at least. A quarter
	// of them are for everything but checks, and one of that quarter is for KILL alone.
	MaxConns int
	// Engine is the engine of the database; empty means engine.Auto.
	Engine engine.Engine
	// LockWait is how long a check waits for a bucket that another session holds,
	// in whole seconds; 0 means DefaultLockWait. Keep it below the deadline of a
	// check, so that the engine gives up first and the outcome stays known.
	LockWait time.Duration
	// Observe is called when an Event has happened, by many goroutines at once. Nil means
	// that is of no use.
	Observe func(Event)
	// ConnectTimeout is how long one connection may take to come about: dial, handshake and
	// session. 0 means DefaultConnectTimeout. The dial to one address may take two thirds of it,
	// unless the DSN has a timeout. Of several addresses each gets an equal part of the time that is left.
	ConnectTimeout time.Duration
}

// Open returns so many connections to a database, and connects to nothing yet. The error wraps
// service.ErrInvalid if the options are wrong.
func Open(o Options, database *Database, use Use, conns int) (*sql.DB, error) {
	connector, err := NewConnector(o, database, use)
	if err != nil {
		return nil, err
	}
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	pool.SetConnMaxLifetime(connLifetime)
	return pool, nil
}
