package db

import "velocityd/db/session"

// tables are the records that people and instances edit: zones, overrides and credentials, with the
// audit of their changes. They have no part in a decision but to be read by it.
type tables struct {
	pool     *session.Pool
	database *session.Database
}

// newTables returns the tables of a database.
func newTables(pool *session.Pool, database *session.Database) *tables {
	return &tables{pool: pool, database: database}
}
