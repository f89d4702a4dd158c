// Package servicetest holds what every store of checks is tested with: the
// in-memory reference store and Exercise, the one suite that each of them must
// pass. It is for tests only and must not know any engine.
package servicetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"velocityd/service"
)

// Memory is the reference store: service.Decide over maps, under one mutex. It
// forgets everything with the process and is NOT for serving.
type Memory struct {
	mu    sync.Mutex
	zones map[int64]service.Zone
	txns  []service.Txn // txn id n at index n-1
}

var _ Bench = (*Memory)(nil)

// NewMemory returns a Memory without zones.
func NewMemory() *Memory {
	return &Memory{zones: map[int64]service.Zone{}}
}

// CheckAll implements service.CheckStore. It never returns an error.
func (m *Memory) CheckAll(_ context.Context, checks []service.Check) ([]service.Decision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now().UTC().Truncate(time.Microsecond)
	decisions := service.Decide(now, m.ledger(checks), checks)
	for i := range decisions {
		m.record(&decisions[i])
	}
	return decisions, nil
}

func (m *Memory) ledger(checks []service.Check) service.Ledger {
	counted := map[service.Bucket][]time.Time{}
	for _, check := range checks {
		for _, b := range check.Buckets {
			counted[b] = nil
		}
	}
	for _, txn := range m.txns {
		if instants, asked := counted[txn.Bucket]; asked && txn.Counted {
			counted[txn.Bucket] = append(instants, txn.CreatedAt)
		}
	}
	return service.Ledger{Zones: m.zones, Counted: counted}
}

// record gives each verdict of a decision its txn.
func (m *Memory) record(d *service.Decision) {
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		v.TxnID = uint64(len(m.txns) + 1)
		m.txns = append(m.txns, service.Txn{
			ID: v.TxnID, Bucket: v.Bucket, CreatedAt: d.CheckedAt,
			Blocked: d.Blocked, Exceeded: v.Blocked, Counted: !d.Blocked,
		})
	}
}

// Zones returns all zones by id.
func (m *Memory) Zones(context.Context) ([]service.Zone, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	zones := make([]service.Zone, 0, len(m.zones))
	for _, zone := range m.zones {
		zones = append(zones, zone)
	}
	slices.SortFunc(zones, func(a, b service.Zone) int { return int(a.ID - b.ID) })
	return zones, nil
}

// Zone returns one zone, or service.ErrNotFound.
func (m *Memory) Zone(_ context.Context, id int64) (service.Zone, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	zone, ok := m.zones[id]
	if !ok {
		return service.Zone{}, fmt.Errorf("zone %d: %w", id, service.ErrNotFound)
	}
	return zone, nil
}

// Txn returns one recorded attempt, or service.ErrNotFound.
func (m *Memory) Txn(_ context.Context, id uint64) (service.Txn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id < 1 || id > uint64(len(m.txns)) {
		return service.Txn{}, fmt.Errorf("txn %d: %w", id, service.ErrNotFound)
	}
	return m.txns[id-1], nil
}

// SetZone implements Bench.
func (m *Memory) SetZone(_ testing.TB, zone service.Zone) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.zones[zone.ID] = zone
}

// DeleteZone implements Bench.
func (m *Memory) DeleteZone(_ testing.TB, id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.zones, id)
}

// Age implements Bench.
func (m *Memory) Age(_ testing.TB, bucket service.Bucket, by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.txns {
		if m.txns[i].Bucket == bucket {
			m.txns[i].CreatedAt = m.txns[i].CreatedAt.Add(-by)
		}
	}
}

// Txns implements Bench.
func (m *Memory) Txns(_ testing.TB, bucket service.Bucket) []service.Txn {
	m.mu.Lock()
	defer m.mu.Unlock()
	var txns []service.Txn
	for _, txn := range m.txns {
		if txn.Bucket == bucket {
			txns = append(txns, txn)
		}
	}
	return txns
}
