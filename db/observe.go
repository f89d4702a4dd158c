package db

import (
	"database/sql"

	"velocityd/db/session"
)

// note tells the observer that an Event has happened.
func (s *Store) note(e session.Event) {
	if s.observe != nil {
		s.observe(e)
	}
}

// noteError notes the Event that an error of the engine means, if there is one.
func (s *Store) noteError(err error) {
	switch {
	case session.IsNumber(err, session.NumberLockWait):
		s.note(session.LockWaitTimeout)
	case session.IsOneOf(err, []uint16{session.NumberDeadlock, session.NumberSnapshot}):
		s.note(session.Deadlock)
	}
}

// Pools returns the use of the connections that decide checks, and of those for everything
// else but KILL and the probe. It asks no engine.
func (s *Store) Pools() (checks, others sql.DBStats) { return s.checks.Stats(), s.lookUps.Stats() }
