package memory

import (
	"context"
	"iter"

	"velocityd/service"
)

// History implements service.HistoryStore. It does NOT count txns of other buckets and times as looked at.
func (m *Store) History(_ context.Context, query service.HistoryQuery) (service.HistoryPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := query.Validate(); err != nil {
		return service.HistoryPage{}, err
	}
	return query.Page(m.walk(query))
}

// Checks implements service.CheckHistory.
func (m *Store) Checks(_ context.Context, query service.HistoryQuery) (service.CheckPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := query.Validate(); err != nil {
		return service.CheckPage{}, err
	}
	page, err := query.PageOfChecks(m.walk(query))
	if err != nil {
		return service.CheckPage{}, err
	}
	var all []service.Txn
	for _, t := range page.Txns {
		for _, of := range m.txns[m.txns[t.ID-1].first:m.txns[t.ID-1].end] {
			all = append(all, of.Txn)
		}
	}
	return query.CheckPage(page, all), nil
}

// walk yields the txns behind the cursor of a query.
func (m *Store) walk(q service.HistoryQuery) iter.Seq2[service.Txn, error] {
	near := service.HistoryQuery{Zones: q.Zones, Keys: q.Keys, Since: q.Since, Until: q.Until}
	if len(q.Keys) == 0 {
		near.Zones = nil
	}
	return func(yield func(service.Txn, error) bool) {
		end := m.now().Add(-service.HistoryLag)
		for i := range m.txns {
			t := m.txns[i].Txn
			if q.Order == service.NewestFirst {
				t = m.txns[len(m.txns)-1-i].Txn
			} else if t.CreatedAt.After(end) {
				return
			}
			isBehind := q.Cursor == 0 || (t.ID < q.Cursor) == (q.Order == service.NewestFirst) && t.ID != q.Cursor
			if isBehind && near.Matches(t) && !yield(t, nil) {
				return
			}
		}
	}
}
