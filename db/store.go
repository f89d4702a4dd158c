// Package db carries out the rules of service on MySQL, MariaDB, Vitess and TiDB: sessions,
// SQL, locks, and engine error numbers turned into service errors. It must not know HTTP, and
// nothing but cmd imports it.
package db

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/service"
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
	// of them are for what is not a check, and one of that quarter is for KILL alone.
	MaxConns int
	// Engine is what the database is; empty means EngineAuto.
	Engine Engine
	// LockWait is how long a check waits for a bucket that another session holds,
	// in whole seconds; 0 means DefaultLockWait. Keep it below the deadline of a
	// check, so that the engine gives up first and the outcome stays known.
	LockWait time.Duration
	// Observe is called when an Event has happened, by many goroutines at once. Nil means
	// that nobody wants to know.
	Observe func(Event)
	// ConnectTimeout is how long one connection may take to come about: dial, handshake and
	// session. 0 means DefaultConnectTimeout. The dial to one address may take two thirds of it,
	// unless the DSN has a timeout. Of several addresses each gets an equal part of what is left.
	ConnectTimeout time.Duration
	engines        *engineMemory // of the store that the connections are of
}

// Store carries out the rules of service in one database. Every connection has
// the session settings that the SQL of this package relies on; see session.go.
type Store struct {
	lanes    *sql.DB // decide checks; the only ones that take several statements in a packet
	pool     *pool
	killer   *killer
	lockWait time.Duration
	hints    *hints
	engines  *engineMemory
	observe  func(Event) // or nil
}

var _ service.CheckStore = (*Store)(nil)

// Open returns the store of a database and connects to nothing yet: a database
// that is away is ErrBusy for whoever asks. The error wraps service.ErrInvalid if
// the options are wrong and never holds the password.
func Open(o Options) (*Store, error) {
	o.MaxConns = max(cmp.Or(o.MaxConns, DefaultMaxConns), LeastMaxConns)
	o.LockWait = cmp.Or(o.LockWait, DefaultLockWait)
	o.engines = newEngineMemory(o.Engine)
	const killers = 1
	others := max(o.MaxConns/4, 1+killers)
	lanes, err := openPool(o, forLanes, o.MaxConns-others)
	if err != nil {
		return nil, err
	}
	rest, err := openPool(o, forPool, others-killers)
	if err != nil {
		return nil, err
	}
	last, err := openPool(o, forPool, killers)
	if err != nil {
		return nil, err
	}
	killer := newKiller(last)
	return &Store{
		lanes: lanes, pool: &pool{conns: sqlx.NewDb(rest, "mysql"), killer: killer}, killer: killer, lockWait: o.LockWait,
		hints: newHints(seenPlaces), engines: o.engines, observe: o.Observe,
	}, nil
}

func openPool(o Options, use use, conns int) (*sql.DB, error) {
	connector, err := newConnector(o, use)
	if err != nil {
		return nil, err
	}
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	pool.SetConnMaxLifetime(connLifetime)
	return pool, nil
}

// Close closes the connections. Those at work are closed when they come back, and Close does NOT
// wait for them.
func (s *Store) Close() error {
	return errors.Join(s.lanes.Close(), s.pool.conns.Close(), s.killer.Close())
}

// SchemaVersion returns the number of the newest migration that was begun, and
// whether it stopped half-way. A database that was never migrated has version 0.
// The error wraps service.ErrBusy if the engine is away.
func (s *Store) SchemaVersion(ctx context.Context) (version uint, dirty bool, err error) {
	return schemaVersion(ctx, s.pool)
}

func schemaVersion(ctx context.Context, from reader) (version uint, dirty bool, err error) {
	rows := []struct {
		Version int64 `db:"version"` // -1 when taking back the first stopped half-way
		Dirty   bool  `db:"dirty"`
	}{}
	err = from.SelectContext(ctx, &rows, `
SELECT version, dirty
  FROM schema_migrations`)
	switch {
	case isNumber(err, errNoSuchTable), err == nil && len(rows) == 0:
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("read schema version: %w", lookupError(err))
	}
	return uint(max(rows[0].Version, 0)), rows[0].Dirty, nil
}

// RedactDSN returns dsn for printing, without its password and parameters. A
// dsn that cannot be parsed is not repeated at all.
func RedactDSN(dsn string) string {
	configs, fault := parseForms(dsn)
	if fault != "" {
		return "(unreadable dsn)"
	}
	cfg, password := configs[0], ""
	if cfg.Passwd != "" {
		password = ":***"
	}
	addresses := make([]string, len(configs))
	for i, cfg := range configs {
		addresses[i] = cfg.Addr
	}
	return fmt.Sprintf("%s%s@%s(%s)/%s", cfg.User, password, cfg.Net, strings.Join(addresses, ","), cfg.DBName)
}
