package db

import (
	"cmp"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
)

// background is the number of sessions that the runners have beside --max-conns, one each: for retention, for events
// and for webhooks.
const background = 3

// pools are the connections of a store, by their use.
type pools struct {
	// checks has the connections that decide checks. They are the only ones of a store that take several statements in a
	// packet.
	checks *sql.DB
	// others has the connections for everything else. lookUps is the part of them for callers, and each runner has a
	// part of one, so that neither takes the other's.
	others  *sqlx.DB
	lookUps *session.Pool
	// spare has a connection for KILL and another one for the probe: the sessions that are ended may have all others.
	spare  *sql.DB
	killer *session.Killer
}

// newPools returns the connections to a database, and connects to nothing yet.
func newPools(o session.Options, database *session.Database) (p pools, err error) {
	o.MaxConns = max(cmp.Or(o.MaxConns, session.DefaultMaxConns), session.LeastMaxConns)
	const killers = 1
	n := max(o.MaxConns/4, 1+killers)
	if p.checks, err = session.Open(o, database, session.ForChecks, o.MaxConns-n); err != nil {
		return p, err
	}
	others, err := session.Open(o, database, session.ForOthers, n-killers+background)
	if err != nil {
		return p, err
	}
	if p.spare, err = openSpare(o, database); err != nil {
		return p, err
	}
	p.others, p.killer = sqlx.NewDb(others, "mysql"), session.NewKiller(p.spare)
	p.lookUps = p.part(n - killers)
	return p, nil
}

func openSpare(o session.Options, database *session.Database) (*sql.DB, error) {
	o.LockWait = session.DefaultLockWait
	return session.Open(o, database, session.ForProbe, 2)
}

// part returns so many of the other connections.
func (p pools) part(conns int) *session.Pool { return session.NewPool(p.others, p.killer, conns) }

// close closes the connections. Those at work are closed when they come back.
func (p pools) close() error {
	p.killer.Close()
	return errors.Join(p.checks.Close(), p.others.Close(), p.spare.Close())
}
