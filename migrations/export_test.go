package migrations

import "database/sql"

// Open gives the tests, which have to stand outside of the package for the sake
// of dbtest, the pool that migrations run on.
func Open(dsn string) (db *sql.DB, name string, err error) { return open(dsn) }

// Digest is that of the current texts.
func Digest() (string, error) { return digest() }

// NewestMarker is the step that installs them.
func NewestMarker() (version int, digest string) { return newestMarker() }

// PortableFits is the answer of the plan for portable tables, or those of MySQL, at a version, if
// these are the steps that change tables.
func PortableFits(version uint, isPortable bool, steps ...int) error {
	return found{version: version, isPortable: isPortable}.fits(steps)
}

// TableSteps are the steps that change tables.
func TableSteps() []int { return tableSteps() }

// PlannedStep is the newest step whose change the plan for portable tables makes, too.
const PlannedStep = plannedStep
