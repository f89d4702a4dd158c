// Package migrations owns the schema's history: tables as numbered steps, one
// statement a file, which golang-migrate carries out; and procedures, functions,
// triggers and views as one current text each, compared with the engine's copy. It
// must not know what the tables are for, nor the rights on them: those are in package roles.
package migrations

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/mysql"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"velocityd/internal/address"
	"velocityd/internal/engine"
)

// metadataWait bounds, in seconds, how long a DDL statement may wait for running
// ones, because every new check would queue behind it.
const metadataWait = "10"

// connectTimeout bounds the time to connect to a database and ask for its engine.
const connectTimeout = 5 * time.Second

// ErrDirty says that a step stopped half-way and a person has to look.
var ErrDirty = errors.New("schema is dirty")

// State is the state of a database's schema.
type State struct {
	Version  uint      // of the newest step that was begun, 0 for none
	Latest   uint      // of the newest step in this program
	Dirty    bool      // that step stopped half-way
	Routines []Routine // of this program, and retired ones that are still there
	// Engine is the one whose form the schema has. Where it is not MySQL there are no Routines,
	// and Actions are the work to do.
	Engine  engine.Engine
	Actions []Action
	Left    []Routine // see Change
}

// IsCurrent says that the schema, with each procedure, function and trigger, is this program's.
func (s State) IsCurrent() bool {
	return !s.Dirty && s.Version == s.Latest && len(s.Actions) == 0 &&
		!slices.ContainsFunc(s.Routines, func(r Routine) bool { return r.State != Current })
}

// Change is the work of Up or Down.
type Change struct {
	From, To uint // versions; equal if no step was carried out
	// Actions are the work on engines without steps.
	Actions []Action
	// Left are the procedures, triggers and views of a database behind vtgate that was migrated as MySQL.
	// Instances that reach that MySQL directly need them; the DBA drops them after the last of these.
	Left []Routine
	// Routines are the procedures, functions, triggers and views that were made anew or,
	// being retired, dropped.
	Routines []Routine
	// Ungranted are the procedures and functions whose grants (GRANT … ON PROCEDURE), if
	// there were any, are gone: MySQL drops them with the routine, and the account could
	// not see them to put them back.
	Ungranted []Routine
}

// upSteps is Up on MySQL.
func upSteps(ctx context.Context, dsn string) (Change, error) {
	return change(ctx, dsn, func(m *migrate.Migrate, t *target) error {
		version, dirty, err := t.known()
		switch {
		case err != nil:
			return err
		case version > int(Latest()) && !dirty:
			return nil
		case dirty && isMarker(version):
			// A marker's step can be carried out again.
			version, dirty = before(version), false
			if err := t.SetVersion(version, dirty); err != nil {
				return err
			}
		}
		if !dirty {
			have, err := describe(ctx, t.conn)
			if err = cmp.Or(err, refuseForeign(version, have.lacks)); err != nil {
				return err
			}
		}
		if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
			return err
		}
		// Routines may be missing although the version is right, such as after a restore of a
		// dump without routines.
		err = t.install(ctx)
		if advice := rightsAdvice(err); advice != "" {
			return fmt.Errorf("%w: %s", err, advice)
		}
		return cmp.Or(err, t.makePartitions(ctx))
	})
}

// makePartitions makes the first partitions of the history while it is empty. If another session reads the table, or it
// has rows already, that is left to the runner of retention, which reports its failure.
func (t *target) makePartitions(ctx context.Context) error {
	_, err := t.conn.ExecContext(ctx, "CALL retain_task('partitions_ahead', '')")
	// An ALTER has waited for a reader for too long.
	if number := numberOf(err); number == errLockWait || number >= firstOwnError {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make partitions of zone_txn: %w", err)
	}
	return nil
}

// firstOwnError is the first of the numbers that procedures of this program raise.
const firstOwnError = 45400

// downSteps is Down on MySQL.
func downSteps(ctx context.Context, dsn string, count int) (Change, error) {
	if count < 0 {
		return Change{}, fmt.Errorf("take back %d migrations: the number must not be negative", count)
	}
	return change(ctx, dsn, func(m *migrate.Migrate, t *target) error {
		version, dirty, err := t.known()
		there := 0
		for _, step := range steps() {
			if step.version <= version {
				there++
			}
		}
		switch {
		case err != nil:
			return err
		case dirty:
			return migrate.ErrDirty{Version: version}
		case version > int(Latest()):
			return fmt.Errorf("schema is at version %d and this program knows only %d: use the newer program",
				version, Latest())
		case count > there:
			return fmt.Errorf("take back %d migrations: there are only %d", count, there)
		}
		if err := dropViews(ctx, t.conn); err != nil {
			return err
		}
		if count == 0 {
			return m.Down()
		}
		return m.Steps(-count)
	})
}

// statusOfSteps is Status on MySQL.
func statusOfSteps(ctx context.Context, dsn string) (State, error) {
	state := State{Latest: Latest(), Engine: MySQL}
	err := run(ctx, dsn, func(_ *migrate.Migrate, t *target) error {
		version, dirty, err := t.known()
		if err != nil {
			return err
		}
		state.Version, state.Dirty = uint(max(version, 0)), dirty
		have, err := describe(ctx, t.conn)
		state.Routines = compare(have)
		return err
	})
	return state, err
}

// change calls do and returns its effect. It holds the lock of migrations from the first look to the last,
// so that no other migration is part of the difference.
func change(ctx context.Context, dsn string, do func(*migrate.Migrate, *target) error) (c Change, err error) {
	err = run(ctx, dsn, func(m *migrate.Migrate, t *target) error {
		from, dirty, err := t.Version()
		if err != nil {
			return err
		}
		if dirty && isMarker(from) {
			from = before(from)
		}
		if err := do(m, t); err != nil {
			return err
		}
		to, _, err := t.Version()
		c = Change{From: uint(max(from, 0)), To: uint(max(to, 0)), Routines: t.installed, Ungranted: t.hidden}
		return err
	})
	return c, err
}

// run connects, does one thing under the lock of migrations and lets go.
func run(ctx context.Context, dsn string, do func(*migrate.Migrate, *target) error) error {
	db, name, err := open(dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := connect(ctx, db)
	if err != nil {
		return err
	}
	defer conn.Close()
	return alone(ctx, conn, name, func() error { return inSteps(ctx, conn, name, do) })
}

// inSteps does one thing with the numbered steps of a database.
func inSteps(ctx context.Context, conn *sql.Conn, name string, do func(*migrate.Migrate, *target) error) error {
	driver, err := mysql.WithConnection(ctx, conn, &mysql.Config{DatabaseName: name})
	if err != nil {
		return fmt.Errorf("prepare migration: %w", err)
	}
	source, err := iofs.New(texts, ".")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	t := &target{Driver: driver, conn: conn, stopped: ctx.Err}
	m, err := migrate.NewWithInstance("embedded", source, name, t)
	if err != nil {
		return err
	}
	return explain(do(m, t))
}

// connect returns a connection. A server that hangs accepts one and says nothing, so this has a
// deadline, other than the statements of a migration, which may take long.
func connect(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect for migration: %w", err)
	}
	return conn, nil
}

// open returns a separate connection pool for migrations: procedures keep the sql_mode of their creation,
// so it is pinned here.
func open(dsn string) (db *sql.DB, name string, err error) {
	return openWith(dsn, map[string]string{
		"sql_mode":          "'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
		"lock_wait_timeout": metadataWait,
	})
}

// openWith returns a connection pool whose sessions have these settings, and the name of the
// database.
func openWith(dsn string, settings map[string]string) (db *sql.DB, name string, err error) {
	var configs []*driver.Config
	for _, one := range address.Split(dsn) {
		cfg, err := driver.ParseDSN(one)
		if err != nil {
			return nil, "", errors.New("dsn cannot be read; write user:password@tcp(host:3306)/database")
		}
		if cfg.DBName == "" {
			return nil, "", errors.New("dsn names no database; end it in /database")
		}
		cfg.Params = settings
		cfg.ParseTime = true
		cfg.MultiStatements = false // one statement a file, even if the dsn says otherwise
		if cfg.Timeout == 0 {
			cfg.Timeout = 5 * time.Second
		}
		configs = append(configs, cfg)
	}
	connector, err := address.NewConnector(configs)
	if err != nil {
		return nil, "", fmt.Errorf("dsn: %w", err)
	}
	return sql.OpenDB(connector), configs[0].DBName, nil
}
