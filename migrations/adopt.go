package migrations

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/golang-migrate/migrate/v4"
)

// isUnsquashed says that a database has a version from before the steps were squashed.
func isUnsquashed(version int) bool { return version > 0 && version < steps(".")[0] }

// adopt brings a database from before the squash to version adoptedAs, or to the one after it if it
// has access_token. golang-migrate carries out one step at a time: a step that stops half-way leaves
// the schema dirty, and adopt goes on after the last step that was completed.
func adopt(m *migrate.Migrate, t *target, version int, dirty bool) error {
	switch {
	case version < beforeSquash, version < firstWhole && version > beforeSquash && !isAdoption(version):
		return fmt.Errorf("the database is at version %d, from before the first release, and cannot be migrated: "+
			"make a new one, or bring it to version %d or %d first with a program of that time", version, beforeSquash, firstWhole)
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
	if version >= withTokens {
		return t.SetVersion(adoptedAs+1, false)
	}
	return t.SetVersion(adoptedAs, false)
}

// isAdoption says that a version is that of a step that adopts.
func isAdoption(version int) bool { return slices.Contains(steps(adoptionFolder), version) }
