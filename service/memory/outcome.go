package memory

import (
	"context"
	"fmt"
	"time"

	"velocityd/service"
)

// ReportAll implements service.OutcomeStore. Its second result is always nil.
func (m *Store) ReportAll(_ context.Context, reports []service.Report) ([]error, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	errs := make([]error, len(reports))
	for i, r := range reports {
		errs[i] = m.report(now, r)
	}
	return errs, nil
}

func (m *Store) report(now time.Time, r service.Report) error {
	if r.AttemptID != "" {
		attempt, err := m.attempt(now, r.AttemptID)
		if err != nil {
			return err
		}
		r.TxnID = attempt.Decision.TxnID()
	}
	if r.TxnID < 1 || r.TxnID > uint64(len(m.txns)) {
		return fmt.Errorf("txn %d: %w", r.TxnID, service.ErrNotFound)
	}
	named := m.txns[r.TxnID-1]
	txns := m.txns[named.first:named.end]
	switch {
	case named.Blocked:
		return fmt.Errorf("txn %d was blocked: %w", r.TxnID, service.ErrConflict)
	case named.Outcome == r.Outcome:
		return nil
	case named.Outcome != "":
		return fmt.Errorf("txn %d has outcome %s: %w", r.TxnID, named.Outcome, service.ErrConflict)
	case r.Outcome == service.OutcomeSuccess && m.ranOut(now, txns):
		return fmt.Errorf("txn %d: its reservation ran out: %w", r.TxnID, service.ErrConflict)
	}
	for i := range txns {
		txns[i].Outcome = r.Outcome
		if r.Outcome == service.OutcomeSuccess {
			m.succeed(now, &txns[i])
		}
	}
	return nil
}

// TxnZones returns, for each of these txns that exists, the zones of all txns of its
// check. Its error is always nil.
func (m *Store) TxnZones(_ context.Context, ids []uint64) (map[uint64][]int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	zones := map[uint64][]int64{}
	for _, id := range ids {
		if id < 1 || id > uint64(len(m.txns)) {
			continue
		}
		named := m.txns[id-1]
		for _, txn := range m.txns[named.first:named.end] {
			zones[id] = append(zones[id], txn.Bucket.ZoneID)
		}
	}
	return zones, nil
}

// ranOut reports whether the time to report a success has run out for a txn of a check.
func (m *Store) ranOut(now time.Time, txns []recorded) bool {
	for _, txn := range txns {
		zone, ok := m.zones[txn.Bucket.ZoneID]
		if ok && zone.Counts == service.CountsFailures && now.After(txn.CreatedAt.Add(zone.ReserveTTL)) {
			return true
		}
	}
	return false
}

func (m *Store) succeed(now time.Time, txn *recorded) {
	zone, ok := m.zones[txn.Bucket.ZoneID]
	if !ok {
		return // the zone is deleted, so its counting is not known
	}
	if zone.Counts == service.CountsFailures {
		txn.giveBack(now)
	}
	if zone.ResetOnSuccess {
		m.uncount(now, txn.Bucket)
	}
}

// uncount makes the bucket's txns stop counting that still count by its zone or by its override.
func (m *Store) uncount(now time.Time, bucket service.Bucket) {
	zone := m.zones[bucket.ZoneID]
	under := zone.TermUnder(service.IndexOverrides(now, m.overrides).Of(zone, bucket))
	for _, i := range m.indexes[bucket] {
		if txn := &m.txns[i]; zone.Term().Until(txn.CreatedAt.Time).After(now) || under.Until(txn.CreatedAt.Time).After(now) {
			txn.giveBack(now)
		}
	}
}

// giveBack makes a txn stop counting.
func (r *recorded) giveBack(now time.Time) {
	if r.Counted {
		r.Counted, r.UncountedAt.Time = false, now
	}
}
