// Package migrations owns the schema's history: numbered SQL texts, one
// statement a file, and the one way to carry them out (golang-migrate). It must
// not know what the tables are for.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/mysql"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

//go:embed *.sql
var texts embed.FS

// metadataWait bounds, in seconds, how long a DDL statement may wait for running
// ones, because every new check would queue behind it.
const metadataWait = "10"

// ErrDirty says that a migration stopped half-way and a person has to look.
var ErrDirty = errors.New("schema is dirty")

// State is where a database's schema is.
type State struct {
	Version uint // of the newest migration that was begun, 0 for none
	Latest  uint // of the newest migration in this program
	Dirty   bool // that migration stopped half-way
}

// Latest returns the version that this program needs.
func Latest() uint {
	files, err := fs.Glob(texts, "*.up.sql")
	if err != nil || len(files) == 0 {
		return 0
	}
	var version uint
	if _, err := fmt.Sscanf(files[len(files)-1], "%d_", &version); err != nil {
		return 0
	}
	return version
}

// Up brings the schema to Latest; nothing to do is no error. The error wraps
// ErrDirty if an earlier migration stopped half-way. dsn is in go-sql-driver's
// form; the account needs DDL rights.
func Up(ctx context.Context, dsn string) error {
	return run(ctx, dsn, (*migrate.Migrate).Up)
}

// Down takes back the newest steps migrations, or all of them if steps is 0.
// What the tables held is lost. Errors are those of Up.
func Down(ctx context.Context, dsn string, steps int) error {
	if steps == 0 {
		return run(ctx, dsn, (*migrate.Migrate).Down)
	}
	return run(ctx, dsn, func(m *migrate.Migrate) error { return m.Steps(-steps) })
}

// Status reads the schema's state and changes nothing but, on a database that
// was never migrated, the empty table that will hold it.
func Status(ctx context.Context, dsn string) (State, error) {
	state := State{Latest: Latest()}
	err := run(ctx, dsn, func(m *migrate.Migrate) error {
		version, dirty, err := m.Version()
		if errors.Is(err, migrate.ErrNilVersion) {
			return nil
		}
		state.Version, state.Dirty = version, dirty
		return err
	})
	return state, err
}

// run connects, does one thing and lets go. When ctx ends the migration stops
// after the statement it is at.
func run(ctx context.Context, dsn string, do func(*migrate.Migrate) error) error {
	db, name, err := open(dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect for migration: %w", err)
	}
	target, err := mysql.WithConnection(ctx, conn, &mysql.Config{DatabaseName: name})
	if err != nil {
		return errors.Join(fmt.Errorf("prepare migration: %w", err), conn.Close())
	}
	source, err := iofs.New(texts, ".")
	if err != nil {
		return errors.Join(fmt.Errorf("read migrations: %w", err), conn.Close())
	}
	m, err := migrate.NewWithInstance("embedded", source, name, target)
	if err != nil {
		return errors.Join(fmt.Errorf("prepare migration: %w", err), conn.Close())
	}
	stop := context.AfterFunc(ctx, func() { m.GracefulStop <- true })
	err = explain(do(m))
	stop()
	sourceErr, targetErr := m.Close()
	return errors.Join(err, sourceErr, targetErr)
}

// explain turns golang-migrate's errors into ours.
func explain(err error) error {
	var dirty migrate.ErrDirty
	switch {
	case err == nil, errors.Is(err, migrate.ErrNoChange):
		return nil
	case errors.As(err, &dirty):
		return fmt.Errorf("%w: migration %d stopped half-way. Each migration is one statement: look at what "+
			"migrations/%06d_*.sql should have done, finish or undo it by hand, then run "+
			"UPDATE schema_migrations SET version = %d, dirty = 0 if it is finished, or version = %d if it is undone",
			ErrDirty, dirty.Version, dirty.Version, dirty.Version, dirty.Version-1)
	}
	return fmt.Errorf("migrate: %w", err)
}

// open returns a connection pool of its own for migrations: procedures keep the
// sql_mode that they were created under, so it is pinned here.
func open(dsn string) (db *sql.DB, name string, err error) {
	cfg, err := driver.ParseDSN(dsn)
	if err != nil {
		return nil, "", errors.New("dsn cannot be read; write user:password@tcp(host:3306)/database")
	}
	if cfg.DBName == "" {
		return nil, "", errors.New("dsn names no database; end it in /database")
	}
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["sql_mode"] = "'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"
	cfg.Params["lock_wait_timeout"] = metadataWait
	cfg.ParseTime = true
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, "", fmt.Errorf("dsn: %w", err)
	}
	return sql.OpenDB(connector), cfg.DBName, nil
}
