package migrations

import "database/sql"

// Open gives the tests, which have to stand outside of the package for the sake
// of dbtest, the pool that migrations run on.
func Open(dsn string) (db *sql.DB, name string, err error) { return open(dsn) }
