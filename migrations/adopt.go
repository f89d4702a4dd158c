package migrations

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/golang-migrate/migrate/v4"
)

// isUnsquashed says that a database has a version of before the squash.
func isUnsquashed(version int) bool { return version > 0 && version < steps(".")[0] }

// adopt brings a database that was made before the squash to version adoptedAs.
// It does so by golang-migrate, one step at a time, so that a step that stops
// half-way leaves the schema dirty, and one that was stopped before goes on.
func adopt(m *migrate.Migrate, t *target, version int, dirty bool) error {
	switch {
	case version < beforeSquash:
		return fmt.Errorf("the database is at version %d, of before the first release, and can not be brought up: "+
			"make a new one, or bring it to version %d first with a program of that time", version, beforeSquash)
	case dirty:
		return migrate.ErrDirty{Version: version}
	}
	for _, step := range steps(adoptionFolder) {
		if step <= version {
			continue
		}
		body, err := stepText(adoptionFolder, step)
		if err != nil {
			return err
		}
		one, err := migrate.NewMigration(io.NopCloser(bytes.NewReader(body)), adoptionFolder, uint(step), step)
		if err != nil {
			return fmt.Errorf("read migration %d: %w", step, err)
		}
		if err := m.Run(one); err != nil {
			return err
		}
	}
	return t.SetVersion(adoptedAs, false)
}

// isAdoption says that a version is that of a step that adopts.
func isAdoption(version int) bool { return slices.Contains(steps(adoptionFolder), version) }
