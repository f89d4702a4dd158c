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
	// Exceeded says that this bucket itself had no room.
	Exceeded bool
	// Counted says that the txn takes one of the bucket's places while it is
	// inside the window.
	Counted bool
}
