package db

import "database/sql"

// Event is something that an engine or a Store did and that operators count.
type Event int

// The events.
const (
	// LockWaitTimeout says that a lock which another session holds did not become free within
	// the lock wait.
	LockWaitTimeout Event = iota
	// Deadlock says that the engine has ended a transaction because of what another one did
	// meanwhile: a deadlock, or a snapshot conflict of MariaDB.
	Deadlock
	// Retry says that a call is made once more, because the engine's error said that nothing
	// was recorded.
	Retry
	// OtherDatabase says that an address of the DSN led to another database than the connections
	// before it, and was not used.
	OtherDatabase
)

// note tells the observer that an Event has happened.
func (s *Store) note(e Event) {
	if s.observe != nil {
		s.observe(e)
	}
}

// noteError notes what an error of the engine means, if that is an Event.
func (s *Store) noteError(err error) {
	switch {
	case isNumber(err, errLockWait):
		s.note(LockWaitTimeout)
	case isOneOf(err, []uint16{errDeadlock, errSnapshot}):
		s.note(Deadlock)
	}
}

// Pools returns the use of the connections that decide checks, and of those for everything
// else. It asks no engine.
func (s *Store) Pools() (checks, others sql.DBStats) { return s.lanes.Stats(), s.pool.conns.Stats() }
