package service

import (
	"context"
)

// Retention is the state of the work that one instance among all does again and again: old rows leave, and partitions are
// made ahead.
type Retention struct {
	OldestTxn Instant // when the oldest txn was recorded; zero if there is none
	Tasks     []RetentionTask
}

// RetentionTask is the last run of a task of retention, by the engine's clock. All times are zero for a task that never
// ran.
type RetentionTask struct {
	Name string
	// BeganAt is the begin of the last run, and EndedAt its end: zero while it runs, and for a run whose
	// runner was ended. SucceededAt is the end of the last run without an error.
	BeganAt, EndedAt, SucceededAt Instant
	// NextAt is when the next run may begin.
	NextAt  Instant
	Removed int64 // rows that the last run removed or changed
	Backlog bool  // it left work for the next one
	Error   string
}

// RetentionReader reads the state of retention. The error wraps ErrBusy if the engine is away.
type RetentionReader interface {
	Retention(ctx context.Context) (Retention, error)
}
