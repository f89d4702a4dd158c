package service

import "time"

// PeekTxns is how many of a bucket's newest txns a Peek shows.
const PeekTxns = 10

// Peek is what can be seen of a bucket without an attempt. A key that was never
// seen looks like one that has been idle for long.
type Peek struct {
	Bucket Bucket
	// At is the engine's clock, UTC.
	At   time.Time
	Mode Mode
	// Rate and Window are the zone's limit, or that of the override.
	Rate     int
	Window   time.Duration
	Velocity int // at most Rate
	// Remaining and RetryAfter are what the next attempt would meet if the zone
	// were enforced: RetryAfter is 0 if it would pass.
	Remaining  int
	RetryAfter time.Duration
	// LockedUntil is the zero time unless the bucket is locked now.
	LockedUntil time.Time
	// Override is the one in force, or nil.
	Override *Override
	// Txns are the newest of the bucket, newest first, at most PeekTxns.
	Txns []Txn
}
