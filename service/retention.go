package service

import (
	"context"
)

// Retention is the state of the work that one instance among all does again and again: old rows leave, and partitions
// are made ahead.
type Retention struct {
	OldestTxn Instant         `json:"oldest_txn_at,omitzero"` // when the oldest txn was recorded; zero if there is none
	Tasks     []RetentionTask `json:"tasks"`
}

// RetentionTask is the last run of a task of retention, by the engine's clock. All times are zero for a task that never
// ran.
type RetentionTask struct {
	Name string `json:"name"`
	// BeganAt is the begin of the last run, and EndedAt its end: zero while it runs, and for a run whose
	// runner was ended. SucceededAt is the end of the last run without an error.
	BeganAt     Instant `json:"began_at,omitzero"`
	EndedAt     Instant `json:"ended_at,omitzero"`
	SucceededAt Instant `json:"succeeded_at,omitzero"`
	// NextAt is when the next run may begin.
	NextAt  Instant `json:"next_at,omitzero"`
	Removed int64   `json:"removed"` // rows that the last run removed or changed
	Backlog bool    `json:"backlog"` // it left work for the next one
	Error   string  `json:"error,omitzero"`
}

// RetentionReader reads the state of retention. The error wraps ErrBusy if the engine is away.
type RetentionReader interface {
	Retention(ctx context.Context) (Retention, error)
}
