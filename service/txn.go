package service

import "time"

// Txn is one recorded attempt in one bucket.
type Txn struct {
	ID        uint64
	Bucket    Bucket
	CreatedAt time.Time // the engine's clock, UTC, microseconds
	// Blocked says that the attempt was not allowed to pass, by this bucket or
	// by another one of the same check.
	Blocked bool
	// WouldBlock says that this bucket itself had no room, whether or not its zone
	// was enforced.
	WouldBlock bool
	// Counted says that the txn takes one of the bucket's places while it is
	// inside the window.
	Counted bool
	// Outcome is how the login ended, or empty if nobody has said.
	Outcome Outcome
	// AttemptID is the caller's own name of the attempt, or empty.
	AttemptID string
}
