package migrations

import "database/sql"

// Open gives the tests, which have to stand outside of the package for the sake
// of dbtest, the pool that migrations run on.
func Open(dsn string) (db *sql.DB, name string, err error) { return open(dsn) }

// Digest is that of the current texts.
func Digest() (string, error) { return digest() }

// NewestMarker is the step that installs them.
func NewestMarker() (version int, digest string) { return newestMarker() }
