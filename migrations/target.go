package migrations

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
)

// target is golang-migrate's driver, made to stop between two steps, to say
// which one failed, and to install procedures, triggers and views where a marker is.
type target struct {
	database.Driver
	conn      *sql.Conn
	stopped   func() error // why no further step may begin, or nil
	begun     int          // the version that the newest step leads to
	from      int          // the version that it began at
	installed []Routine    // by markers and Up, made anew or dropped
	hidden    []Routine    // the ones of them whose grants may be gone
}

const (
	errNoSuchTable  = 1146
	errLockWait     = 1205
	errNoDatabase   = 1049
	errAccessDenied = 1045
	// errNoTrust refuses a CREATE TRIGGER by an account without SUPER, on a server with a binary log that
	// does not trust the creators of triggers.
	errNoTrust = 1419
)

// IsRefused says that the engine has refused a statement for want of a right: it has carried out no
// part of it.
func IsRefused(err error) bool {
	return slices.Contains([]uint16{1044, 1142, 1143, 1227, 1370, errNoTrust}, numberOf(err))
}

// numberOf returns the number of an engine's error, and 0 for any other.
func numberOf(err error) uint16 {
	if engine, is := errors.AsType[*mysql.MySQLError](err); is {
		return engine.Number
	}
	return 0
}

// rightsAdvice gives advice for a missing right, and is empty for any other error.
func rightsAdvice(err error) string {
	switch {
	case !IsRefused(err):
		return ""
	case numberOf(err) == errNoTrust:
		return "let an administrator run SET GLOBAL log_bin_trust_function_creators = 1 and start again; " +
			"it can be 0 again afterwards"
	}
	return "grant the account that right and start again"
}

// known is Version, and an ErrForeign for a version of before 0.1.0.
func (t *target) known() (version int, dirty bool, err error) {
	version, dirty, err = t.Version()
	if err == nil {
		err = RefuseUnreleased(uint(max(version, 0)))
	}
	return version, dirty, err
}

// Lock does nothing: alone holds the lock of migrations for as long as the target lives.
func (t *target) Lock() error { return nil }

// Unlock does nothing either.
func (t *target) Unlock() error { return nil }

// SetVersion notes a version. dirty means that a step begins: then it returns the error of
// stopped, if there is one, and the step does NOT begin. golang-migrate's GracefulStop is not
// used, because it reports success and two of its goroutines race for it.
func (t *target) SetVersion(version int, dirty bool) error {
	if dirty {
		if err := t.stopped(); err != nil {
			return fmt.Errorf("stopped before going to version %d: %w", max(version, 0), err)
		}
		from, _, err := t.Version()
		if err != nil {
			return err
		}
		t.begun, t.from = version, from
	}
	return t.Driver.SetVersion(version, dirty)
}

// Run carries out one step. If the account has no right to do so, or others read the table all the time, the schema
// stays as it was.
// After any other failure the schema is dirty: the error wraps ErrDirty and says what to do.
func (t *target) Run(migration io.Reader) error {
	err := t.runStep(migration)
	if err == nil {
		return nil
	}
	if failed, is := errors.AsType[database.Error](err); is {
		err = failed.OrigErr // without the whole text of the statement
	}
	advice := rightsAdvice(err)
	if numberOf(err) == errLockWait {
		advice = "nothing was changed"
	}
	if advice != "" {
		if err := t.Driver.SetVersion(t.from, false); err != nil {
			return fmt.Errorf("%w; %w", dirtyAt(t.begun), err)
		}
		return fmt.Errorf("go to version %d: %w: %s", max(t.begun, 0), err, advice)
	}
	return fmt.Errorf("go to version %d: %w; %w", max(t.begun, 0), err, dirtyAt(t.begun))
}

// runStep carries out a step's statement or, for the newest marker, installs the procedures, triggers and
// views. An older marker does nothing, because the current texts may name tables of later steps.
func (t *target) runStep(migration io.Reader) error {
	step, err := io.ReadAll(migration)
	if err != nil {
		return fmt.Errorf("read migration: %w", err)
	}
	if !bytes.HasPrefix(step, []byte(markerStart)) {
		in := installer{conn: t.conn}
		return in.execBetweenChecks(context.Background(), "change tables", string(step))
	}
	if newest, _ := newestMarker(); t.begun != newest {
		return nil
	}
	return t.install(context.Background())
}

// install brings all procedures, triggers and views to their current texts.
func (t *target) install(ctx context.Context) error {
	made, hidden, err := install(ctx, t.conn)
	t.installed, t.hidden = append(t.installed, made...), append(t.hidden, hidden...)
	return err
}

// explain turns golang-migrate's errors into ours.
func explain(err error) error {
	var dirty migrate.ErrDirty
	switch {
	case err == nil, errors.Is(err, migrate.ErrNoChange):
		return nil
	case errors.As(err, &dirty):
		return dirtyAt(dirty.Version)
	}
	return fmt.Errorf("migrate: %w", err)
}

// dirtyAt returns an ErrDirty that says how to put it right. golang-migrate
// notes only the version that the step was to lead to, and not from which side it
// came, so both ways are named.
func dirtyAt(version int) error {
	const set = "UPDATE schema_migrations SET version = %d, dirty = 0"
	if isMarker(version) {
		return fmt.Errorf(
			"%w: the installation of procedures, triggers and views (version %d) stopped half-way: migrate up does the rest",
			ErrDirty, version)
	}
	var advice strings.Builder
	fmt.Fprintf(&advice, "a migration to version %d stopped half-way. Each migration is one statement: look whether it "+
		"was carried out. If it was, run "+set, max(version, 0), version)
	if version >= 1 {
		fmt.Fprintf(&advice, "; if it was not, and was the way up (migrations/%06d_*.up.sql), run "+set, version,
			before(version))
	}
	if after, ok := after(version); ok {
		fmt.Fprintf(&advice, "; if it was not, and was the way down (migrations/%06d_*.down.sql), run "+set, after, after)
	}
	return fmt.Errorf("%w: %s", ErrDirty, advice.String())
}
