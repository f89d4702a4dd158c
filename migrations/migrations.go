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

// Up brings the schema to Latest; nothing to do is no error, and a schema that a
// newer program has brought further stays as it is. The error wraps ErrDirty if
// a migration stopped half-way, now or earlier, and says what to do. dsn is in
// go-sql-driver's form; the account needs DDL rights. Two at once wait for each
// other, up to 10 seconds. When ctx ends the migration stops after the statement
// it is at, and says so.
func Up(ctx context.Context, dsn string) error {
	return run(ctx, dsn, func(m *migrate.Migrate, t *target) error {
		version, dirty, err := t.Version()
		if err != nil {
			return err
		}
		if version > int(Latest()) && !dirty {
			return nil
		}
		return m.Up()
	})
}

// Down takes back the newest steps migrations, or all of them if steps is 0.
// What the tables held is lost. If there are fewer than steps, nothing is taken
// back. Errors and waiting are those of Up.
func Down(ctx context.Context, dsn string, steps int) error {
	if steps < 0 {
		return fmt.Errorf("take back %d migrations: the number must not be negative", steps)
	}
	return run(ctx, dsn, func(m *migrate.Migrate, t *target) error {
		version, dirty, err := t.Version()
		switch {
		case err != nil:
			return err
		case dirty:
			return migrate.ErrDirty{Version: version}
		case version > int(Latest()):
			return fmt.Errorf("schema is at version %d and this program knows only %d: use the newer program",
				version, Latest())
		case steps > max(version, 0): // numbers have no gaps
			return fmt.Errorf("take back %d migrations: there are only %d", steps, max(version, 0))
		case steps == 0:
			return m.Down()
		}
		return m.Steps(-steps)
	})
}

// Status reads the schema's state and changes nothing but, on a database that
// was never migrated, the empty table that will hold it. It waits for a
// migration under way, as Up does.
func Status(ctx context.Context, dsn string) (State, error) {
	state := State{Latest: Latest()}
	err := run(ctx, dsn, func(_ *migrate.Migrate, t *target) error {
		version, dirty, err := t.Version()
		state.Version, state.Dirty = uint(max(version, 0)), dirty
		return err
	})
	return state, err
}

// run connects, does one thing and lets go.
func run(ctx context.Context, dsn string, do func(*migrate.Migrate, *target) error) error {
	db, name, err := open(dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect for migration: %w", err)
	}
	driver, err := mysql.WithConnection(ctx, conn, &mysql.Config{DatabaseName: name})
	if err != nil {
		return errors.Join(fmt.Errorf("prepare migration: %w", err), conn.Close())
	}
	source, err := iofs.New(texts, ".")
	if err != nil {
		return errors.Join(fmt.Errorf("read migrations: %w", err), conn.Close())
	}
	t := &target{Driver: driver, stopped: ctx.Err}
	m, err := migrate.NewWithInstance("embedded", source, name, t)
	if err != nil {
		return errors.Join(fmt.Errorf("prepare migration: %w", err), conn.Close())
	}
	err = explain(do(m, t))
	sourceErr, targetErr := m.Close()
	return errors.Join(err, sourceErr, targetErr)
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
	cfg.MultiStatements = false // one statement a file, whatever the dsn says
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, "", fmt.Errorf("dsn: %w", err)
	}
	return sql.OpenDB(connector), cfg.DBName, nil
}
