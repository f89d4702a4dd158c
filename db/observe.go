package db

import "database/sql"

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
