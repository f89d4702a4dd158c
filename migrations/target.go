package migrations

import (
	"errors"
	"fmt"
	"io"
	"strings"

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
}

// SetVersion does NOT begin a migration, which it is told by dirty, once stopped
// gives a reason. golang-migrate's own GracefulStop would report success, and
// two of its goroutines race for it.
func (t *target) SetVersion(version int, dirty bool) error {
	if dirty {
		if err := t.stopped(); err != nil {
			return fmt.Errorf("stopped before going to version %d: %w", max(version, 0), err)
		}
		t.begun = version
	}
	return t.Driver.SetVersion(version, dirty)
}

// Run carries out one migration. A failed one leaves the schema dirty, so the
// error wraps ErrDirty and says at once what to do.
func (t *target) Run(migration io.Reader) error {
	err := t.Driver.Run(migration)
	if err == nil {
		return nil
	}
	if failed := (database.Error{}); errors.As(err, &failed) {
		err = failed.OrigErr // without the whole text of the statement
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
