package memory

import (
	"context"
	"time"

	"velocityd/service"
)

// attempt returns the answer that is remembered under an attempt id.
func (m *Store) attempt(now time.Time, id string) (service.Attempt, error) {
	attempt, known := m.attempts[id]
	if !known || !now.Before(attempt.ExpiresAt.Time) {
		return service.Attempt{}, service.NoAttempt()
	}
	return attempt, nil
}

// Remembered returns the first answer to an attempt id, also when it has expired. It says false if there was no such
// attempt.
func (m *Store) Remembered(id string) (service.Attempt, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	attempt, isKnown := m.attempts[id]
	return attempt, isKnown
}

// TxnsOfCheck returns the txns that were recorded by the check which recorded this txn, the first one first. There are
// none if there is no such txn.
func (m *Store) TxnsOfCheck(id uint64) (txns []service.Txn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id < 1 || id > uint64(len(m.txns)) {
		return nil
	}
	for _, txn := range m.txns[m.txns[id-1].first:m.txns[id-1].end] {
		txns = append(txns, txn.Txn)
	}
	return txns
}

// Attempt returns the answer and the txns of an attempt by its id, or service.ErrNotFound.
func (m *Store) Attempt(_ context.Context, id string) (service.Recall, error) {
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
func (m *Store) AttemptZones(_ context.Context, ids []string) (map[string][]int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	zones := map[string][]int64{}
	for _, id := range ids {
		if attempt, err := m.attempt(m.now(), id); err == nil {
			zones[id] = attempt.Decision.Zones()
		}
	}
	return zones, nil
}
