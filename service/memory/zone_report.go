package memory

import (
	"context"
	"time"

	"velocityd/service"
	"velocityd/service/zonereport"
)

// ZoneReport implements zonereport.Store.
func (m *Store) ZoneReport(
	ctx context.Context, zone service.Zone, query zonereport.Query,
) (zonereport.Report, error) {
	return zonereport.Make(ctx, zone, query, m)
}

// TotalsWithin implements zonereport.Source.
func (m *Store) TotalsWithin(
	_ context.Context, zoneID int64, since, until time.Time,
) (t service.Totals, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, txn := range m.txns {
		if txn.Bucket.ZoneID == zoneID && !txn.CreatedAt.Before(since) && txn.CreatedAt.Before(until) {
			t.Add(txn.Txn)
		}
	}
	return t, nil
}

// MostTxns implements zonereport.Source.
func (m *Store) MostTxns(context.Context, time.Time, time.Time) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.txns), nil
}

// ReadTxns implements zonereport.Source.
func (m *Store) ReadTxns(
	_ context.Context, _ []int64, since, until time.Time, most int, take func(service.Txn) bool,
) (from time.Time, passed int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	from = until
	for i := len(m.txns) - 1; i >= 0; i-- {
		txn := m.txns[i].Txn
		if txn.CreatedAt.Before(since) || !txn.CreatedAt.Before(until) {
			continue
		}
		if passed++; passed > most {
			return from, most, nil
		}
		if from = txn.CreatedAt.Time; !take(txn) {
			return from, passed, nil
		}
	}
	return since, passed, nil
}

// Oldest implements zonereport.Source.
func (m *Store) Oldest(context.Context) (service.Txn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.txns) == 0 {
		return service.Txn{}, nil
	}
	return m.txns[0].Txn, nil
}
