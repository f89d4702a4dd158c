package memory

import (
	"context"
	"fmt"
	"slices"

	"velocityd/service"
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
		Records: explain.Records{Zones: m.zones, Overrides: m.overrides, Changes: slices.Clone(m.changes), Releases: m.releases},
	}
	slices.Reverse(e.Records.Changes)
	for _, txn := range m.txns[named.first:named.end] {
		e.Check, e.Buckets = append(e.Check, txn.Txn), append(e.Buckets, m.past(txn.Txn))
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

// past returns all that a bucket has recorded.
func (m *Store) past(own service.Txn) explain.Past {
	p := explain.Past{Last: m.lockouts[own.Bucket]}
	for _, txn := range m.txnsOf(own.Bucket) {
		switch {
		case txn.Reason == service.ReasonLockout && txn.ID <= own.ID:
			p.Lockouts = append(p.Lockouts, txn)
		case txn.Counted || !txn.UncountedAt.Before(own.CreatedAt):
			p.Rows = append(p.Rows, txn)
		}
	}
	return p
}

// changedZone records that a zone is about to change or to go.
func (m *Store) changedZone(id int64) {
	change := explain.Change{At: m.now(), ZoneID: id}
	if before, exists := m.zones[id]; exists {
		change.Zone = &before
	}
	m.changes = append(m.changes, change)
}

// madeOverride records that an override was made.
func (m *Store) madeOverride(o service.Override) {
	m.changes = append(m.changes, explain.Change{At: m.now(), ZoneID: o.ZoneID, OverrideID: o.ID})
}

// changedOverride records that an override is about to change or to go.
func (m *Store) changedOverride(before service.Override) {
	m.changes = append(m.changes, explain.Change{At: m.now(), ZoneID: before.ZoneID, OverrideID: before.ID, Override: &before})
}

// dropOverrides removes the overrides that fulfil a condition.
func (m *Store) dropOverrides(isGoing func(service.Override) bool) {
	for _, o := range m.overrides {
		if isGoing(o) {
			m.changedOverride(o)
		}
	}
	m.overrides = slices.DeleteFunc(m.overrides, isGoing)
}
