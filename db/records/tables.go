// Package records keeps the records that people and instances edit: zones, overrides, credentials and webhooks, with
// the audit of their changes; the list of lockouts that have not ended; and the back-tests that instances make for
// callers. It must not know how a check is decided.
package records

import "velocityd/db/session"

// Tables are the records of one database. They have no part in a decision but to be read by it.
type Tables struct {
	pool     *session.Pool
	database *session.Database
}

// New returns the tables of a database.
func New(pool *session.Pool, database *session.Database) *Tables {
	return &Tables{pool: pool, database: database}
}
