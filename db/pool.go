// Package db carries out the rules of service on MySQL and MariaDB: pool, SQL,
// locks, and engine error numbers turned into service errors. It must not know
// HTTP, and nothing but cmd imports it.
package db

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"velocityd/service"
)

// Defaults of Options.
const (
	DefaultMaxConns = 32
	DefaultLockWait = time.Second
	dialTimeout     = 2 * time.Second
	connectTimeout  = 3 * time.Second // dial, handshake and session
	silenceTimeout  = time.Minute
	connLifetime    = 30 * time.Minute
)

// Options says how to reach the engine.
type Options struct {
	// DSN is in go-sql-driver's form: user:password@tcp(host:3306)/database.
	DSN string
	// MaxConns bounds the connections of the pool; 0 means DefaultMaxConns.
	MaxConns int
	// LockWait is how long the engine lets a check wait for a bucket's lock,
	// in whole seconds; 0 means DefaultLockWait. Keep it below the deadline of a
	// check, so that the engine gives up first and the outcome stays known.
	LockWait time.Duration
	// connectTimeout is 3 s if it is 0; tests for slow machines need longer.
	connectTimeout time.Duration
}

// Pool is the connections to one database. Every connection has the session
// settings that the SQL of this package relies on; see session.go.
type Pool struct {
	db       *sqlx.DB
	lockWait time.Duration
}

// Open connects and proves one connection. The error wraps service.ErrInvalid
// if the options are wrong and service.ErrBusy if the engine is away; it never
// holds the password. Open does NOT look at the schema: see SchemaVersion.
func Open(ctx context.Context, o Options) (*Pool, error) {
	o.MaxConns = cmp.Or(o.MaxConns, DefaultMaxConns)
	o.LockWait = cmp.Or(o.LockWait, DefaultLockWait)
	connector, err := newConnector(o)
	if err != nil {
		return nil, err
	}
	pool := &Pool{db: sqlx.NewDb(sql.OpenDB(connector), "mysql"), lockWait: o.LockWait}
	pool.db.SetMaxOpenConns(o.MaxConns)
	pool.db.SetMaxIdleConns(o.MaxConns)
	pool.db.SetConnMaxLifetime(connLifetime)
	if err := pool.db.PingContext(ctx); err != nil {
		_ = pool.db.Close() // nothing was opened that could be lost
		return nil, fmt.Errorf("connect to %s: %w", RedactDSN(o.DSN), lookupError(err))
	}
	return pool, nil
}

// Close waits for running queries and closes all connections.
func (p *Pool) Close() error { return p.db.Close() }

// SchemaVersion returns the number of the newest migration that was begun, and
// whether it stopped half-way. A database that was never migrated has version 0.
// The error wraps service.ErrBusy if the engine is away.
func (p *Pool) SchemaVersion(ctx context.Context) (version uint, dirty bool, err error) {
	rows := []struct {
		Version int64 `db:"version"` // -1 when taking back the first stopped half-way
		Dirty   bool  `db:"dirty"`
	}{}
	err = p.db.SelectContext(ctx, &rows, `
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
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "(unreadable dsn)"
	}
	password := ""
	if cfg.Passwd != "" {
		password = ":***"
	}
	return fmt.Sprintf("%s%s@%s(%s)/%s", cfg.User, password, cfg.Net, cfg.Addr, cfg.DBName)
}

// parseDSN does not wrap the driver's error, which may quote the password.
func parseDSN(dsn string) (*mysql.Config, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf(
			"%w: dsn cannot be read; write user:password@tcp(host:3306)/database", service.ErrInvalid)
	}
	if cfg.DBName == "" {
		return nil, fmt.Errorf("%w: dsn names no database; end it in /database", service.ErrInvalid)
	}
	return cfg, nil
}
