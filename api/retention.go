package api

import "velocityd/service"

// Retention is the answer of GET /v1/retention.
type Retention struct {
	OldestTxnAt Instant         `json:"oldest_txn_at,omitzero"`
	Tasks       []RetentionTask `json:"tasks"`
}

// RetentionTask is the last run of a task. Instants that are not known, or not yet, are left out.
type RetentionTask struct {
	Name        string  `json:"name"`
	BeganAt     Instant `json:"began_at,omitzero"`
	EndedAt     Instant `json:"ended_at,omitzero"`
	SucceededAt Instant `json:"succeeded_at,omitzero"`
	NextAt      Instant `json:"next_at,omitzero"`
	Removed     int64   `json:"removed"`
	Backlog     bool    `json:"backlog"`
	Error       string  `json:"error,omitzero"`
}

// NewRetention returns the answer for the state of retention.
func NewRetention(r service.Retention) Retention {
	answer := Retention{OldestTxnAt: Instant(r.OldestTxn.Time), Tasks: make([]RetentionTask, len(r.Tasks))}
	for i, t := range r.Tasks {
		answer.Tasks[i] = RetentionTask{
			Name: t.Name, BeganAt: Instant(t.BeganAt.Time), EndedAt: Instant(t.EndedAt.Time), SucceededAt: Instant(t.SucceededAt.Time),
			NextAt: Instant(t.NextAt.Time), Removed: t.Removed, Backlog: t.Backlog, Error: t.Error,
		}
	}
	return answer
}

// Retention converts the answer to the type of package service.
func (r Retention) Retention() service.Retention {
	state := service.Retention{OldestTxn: service.At(r.OldestTxnAt.Time()), Tasks: make([]service.RetentionTask, len(r.Tasks))}
	for i, t := range r.Tasks {
		state.Tasks[i] = service.RetentionTask{
			Name: t.Name, BeganAt: service.At(t.BeganAt.Time()), EndedAt: service.At(t.EndedAt.Time()), SucceededAt: service.At(t.SucceededAt.Time()),
			NextAt: service.At(t.NextAt.Time()), Removed: t.Removed, Backlog: t.Backlog, Error: t.Error,
		}
	}
	return state
}
