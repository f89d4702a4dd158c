package migrations

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
)

// none is golang-migrate's version of a schema without any migration.
const none = database.NilVersion

// target is golang-migrate's driver, made to stop between two migrations and to
// say which one failed.
type target struct {
	database.Driver
	stopped func() error // why no further migration may begin, or nil
	begun   int          // the version that the newest migration leads to
	from    int          // the version that it began at
}

// errNoTrust is what a server with a binary log says to a CREATE TRIGGER of an
// account without SUPER, unless it trusts the creators of triggers.
const errNoTrust = 1419

// refusals are the error numbers of statements that the engine refuses for want
// of a right: it has carried out no part of them.
func refusals() []uint16 { return []uint16{1044, 1142, 1143, 1227, 1370, errNoTrust} }

// SetVersion does NOT begin a migration, which it is told by dirty, once stopped
// gives a reason. golang-migrate's own GracefulStop would report success, and
// two of its goroutines race for it.
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

// Run carries out one migration. One that the account may not carry out leaves
// the schema as it was. Any other that fails leaves it dirty, so the error wraps
// ErrDirty and says at once what to do.
func (t *target) Run(migration io.Reader) error {
	err := t.Driver.Run(migration)
	if err == nil {
		return nil
	}
	if failed := (database.Error{}); errors.As(err, &failed) {
		err = failed.OrigErr // without the whole text of the statement
	}
	var engine *mysql.MySQLError
	if errors.As(err, &engine) && slices.Contains(refusals(), engine.Number) {
		advice := "grant the account that right and start again"
		if engine.Number == errNoTrust {
			advice = "let an administrator run SET GLOBAL log_bin_trust_function_creators = 1 and start again; " +
				"it can be 0 again afterwards"
		}
		if err := t.Driver.SetVersion(t.from, false); err != nil {
			return fmt.Errorf("%w; %w", dirtyAt(t.begun), err)
		}
		return fmt.Errorf("go to version %d: %w: %s", max(t.begun, 0), err, advice)
	}
	return fmt.Errorf("go to version %d: %w; %w", max(t.begun, 0), err, dirtyAt(t.begun))
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
// notes only the version that the migration was to lead to, and not from which
// side it came, so both ways are named.
func dirtyAt(version int) error {
	const set = "UPDATE schema_migrations SET version = %d, dirty = 0"
	var advice strings.Builder
	fmt.Fprintf(&advice, "a migration to version %d stopped half-way. Each migration is one statement: look whether it was "+
		"carried out. If it was, run "+set, max(version, 0), version)
	if version >= 1 {
		before := version - 1
		if before == 0 {
			before = none
		}
		fmt.Fprintf(&advice, "; if it was not, and was the way up (migrations/%06d_*.up.sql), run "+set, version, before)
	}
	if after := max(version, 0) + 1; after <= int(Latest()) {
		fmt.Fprintf(&advice, "; if it was not, and was the way down (migrations/%06d_*.down.sql), run "+set, after, after)
	}
	return fmt.Errorf("%w: %s", ErrDirty, advice.String())
}
