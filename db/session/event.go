package session

// Event is something that an engine or a Store did and that operators count.
type Event int

// The events.
const (
	// LockWaitTimeout says that a lock which another session holds did not become free within
	// the lock wait.
	LockWaitTimeout Event = iota
	// Deadlock says that the engine has ended a transaction because of another one
	// meanwhile: a deadlock, or a snapshot conflict of MariaDB.
	Deadlock
	// Retry says that a call is made once more, because the engine's error said that nothing
	// was recorded.
	Retry
	// OtherDatabase says that an address of the DSN led to another database than the connections
	// before it, and was not used.
	OtherDatabase
)
