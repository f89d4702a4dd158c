package memory

import (
	"context"
	"fmt"
	"slices"

	"velocityd/service"
	"velocityd/service/audit"
	"velocityd/service/explain"
)

// Explain says why an attempt was decided as it was, or returns service.ErrNotFound.
func (m *Store) Explain(_ context.Context, id uint64) (explain.Explanation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id < 1 || id > uint64(len(m.txns)) {
		return explain.Explanation{}, fmt.Errorf("txn %d: %w", id, service.ErrNotFound)
	}
	named := m.txns[id-1]
	e := explain.Evidence{
		Now: m.now(), Txn: named.Txn, Oldest: m.txns[0].Txn,
		Records: explain.Records{Zones: m.zones, Overrides: m.overrides, Edits: slices.Clone(m.edits)},
	}
	slices.Reverse(e.Records.Edits)
	for _, txn := range m.txns[named.first:named.end] {
		e.Check, e.Buckets = append(e.Check, txn.Txn),
			append(e.Buckets, explain.Past{Last: m.lockouts[txn.Bucket], Rows: m.txnsOf(txn.Bucket)})
	}
	of := m.indexes[named.Bucket]
	place := slices.Index(of, int(id-1))
	if place > 0 {
		e.Previous = new(m.txns[of[place-1]].Txn)
	}
	if place < len(of)-1 {
		e.Next = new(m.txns[of[place+1]].Txn)
	}
	return explain.Of(e), nil
}

// note records an edit, for explanations.
func (m *Store) note(e audit.Edit) {
	e.At = m.now()
	m.edits = append(m.edits, e)
}

// zoneNow returns a zone, or nil.
func (m *Store) zoneNow(id int64) *service.Zone {
	if zone, exists := m.zones[id]; exists {
		return &zone
	}
	return nil
}

// dropOverrides removes the overrides that fulfil a condition.
func (m *Store) dropOverrides(isGoing func(service.Override) bool) {
	for _, o := range m.overrides {
		if isGoing(o) {
			m.note(audit.Edit{OverrideBefore: &o})
		}
	}
	m.overrides = slices.DeleteFunc(m.overrides, isGoing)
}
