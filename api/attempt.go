package api

import "velocityd/service"

// Attempt is the answer of GET /v1/attempts/{id}.
type Attempt struct {
	AttemptID string          `json:"attempt_id"`
	ExpiresAt Instant         `json:"expires_at"`
	Outcome   service.Outcome `json:"outcome,omitzero"`
	Decision  Decision        `json:"decision"`
	Txns      []Txn           `json:"txns"`
}

// NewAttempt returns the answer for an attempt.
func NewAttempt(r service.Recall) Attempt {
	answer := Attempt{
		AttemptID: r.AttemptID, ExpiresAt: Instant(r.ExpiresAt.Time), Outcome: r.Outcome(), Decision: NewDecision(r.Decision),
		Txns: make([]Txn, len(r.Txns)),
	}
	for i, t := range r.Txns {
		answer.Txns[i] = NewTxn(t)
	}
	return answer
}

// Recall converts the answer to the type of package service.
func (a Attempt) Recall() service.Recall {
	r := service.Recall{
		AttemptID: a.AttemptID, Attempt: service.Attempt{Decision: a.Decision.Decision(), ExpiresAt: service.At(a.ExpiresAt.Time())},
	}
	for _, t := range a.Txns {
		r.Txns = append(r.Txns, t.Txn())
	}
	return r
}
