package servicetest

import (
	"context"
	"time"

	"velocityd/service"
)

// attempt returns what is remembered under an attempt id.
func (m *Memory) attempt(now time.Time, id string) (service.Attempt, error) {
	attempt, known := m.attempts[id]
	if !known || !now.Before(attempt.ExpiresAt) {
		return service.Attempt{}, service.NoAttempt()
	}
	return attempt, nil
}

// Attempt returns the answer and the txns of an attempt by its id, or service.ErrNotFound.
func (m *Memory) Attempt(_ context.Context, id string) (service.Recall, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	attempt, err := m.attempt(m.now(), id)
	if err != nil {
		return service.Recall{}, err
	}
	var txns []service.Txn
	for _, v := range attempt.Decision.Verdicts {
		txns = append(txns, m.txns[v.TxnID-1].Txn)
	}
	return service.NewRecall(id, attempt, txns), nil
}

// AttemptZones returns, for each of these attempt ids that is remembered, the zones of all buckets of its
// check. Its error is always nil.
func (m *Memory) AttemptZones(_ context.Context, ids []string) (map[string][]int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	zones := map[string][]int64{}
	for _, id := range ids {
		if attempt, err := m.attempt(m.now(), id); err == nil {
			zones[id] = attempt.Zones()
		}
	}
	return zones, nil
}
