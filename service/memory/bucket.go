package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"velocityd/service"
	"velocityd/service/audit"
)

// Peek returns the view of a bucket, or the error of service.NewPeek.
func (m *Store) Peek(_ context.Context, bucket service.Bucket) (service.Peek, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	peek, err := service.NewPeek(m.now(), m.ledger([]service.Bucket{bucket}), bucket)
	if err != nil {
		return service.Peek{}, err
	}
	peek.Txns = m.newest(bucket)
	return peek, nil
}

func (m *Store) newest(bucket service.Bucket) []service.Txn {
	txns := m.txnsOf(bucket)
	slices.SortFunc(txns, func(a, b service.Txn) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt.Time), cmp.Compare(b.ID, a.ID))
	})
	return txns[:min(len(txns), service.PeekTxns)]
}

// Release makes the bucket's txns stop counting, and ends its lockout, so that the next
// one has the first length. It returns ErrNotFound for an unknown zone.
func (m *Store) Release(_ context.Context, bucket service.Bucket, principal, reason string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.zone(bucket.ZoneID); err != nil {
		return err
	}
	m.uncount(m.now(), bucket)
	delete(m.lockouts, bucket)
	m.tellRelease(m.now(), bucket, principal, reason)
	m.note(audit.Edit{Released: &bucket})
	m.audit(Audit{
		ZoneID: bucket.ZoneID, Action: "release bucket", Key: bucket.Key, Principal: principal, Reason: reason,
	})
	return nil
}

// Age moves all times of a bucket into the past: those of its txns, the end of its lockout, and the expiry of the
// attempt ids of its txns. A test ages rows where it would have to wait.
func (m *Store) Age(bucket service.Bucket, by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := map[string]bool{}
	for _, i := range m.indexes[bucket] {
		txn := &m.txns[i]
		txn.CreatedAt.Time, txn.LastAt.Time = txn.CreatedAt.Add(-by), txn.LastAt.Add(-by)
		if !txn.UncountedAt.IsZero() {
			txn.UncountedAt.Time = txn.UncountedAt.Add(-by)
		}
		ids[txn.AttemptID] = true
	}
	if lockout, ok := m.lockouts[bucket]; ok {
		lockout.Until = lockout.Until.Add(-by)
		m.lockouts[bucket] = lockout
	}
	if locked, ok := m.standing[bucket]; ok {
		locked.Until = locked.Until.Add(-by)
		m.standing[bucket] = locked
	}
	if series, ok := m.series[bucket]; ok {
		series.Began, series.TxnAt = series.Began.Add(-by), series.TxnAt.Add(-by)
		m.series[bucket] = series
	}
	for id := range ids {
		if first, ok := m.attempts[id]; ok {
			first.ExpiresAt.Time = first.ExpiresAt.Add(-by)
			m.attempts[id] = first
		}
	}
}

// Txns returns every txn of a bucket by id.
func (m *Store) Txns(bucket service.Bucket) []service.Txn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.txnsOf(bucket)
}

// Buckets returns every bucket that has a txn, in order.
func (m *Store) Buckets() []service.Bucket {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Keys(m.indexes), service.Bucket.Compare)
}

func (m *Store) txnsOf(bucket service.Bucket) []service.Txn {
	var txns []service.Txn
	for _, i := range m.indexes[bucket] {
		txns = append(txns, m.txns[i].Txn)
	}
	return txns
}
