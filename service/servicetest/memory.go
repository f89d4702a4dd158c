// Package servicetest holds what every store of checks is tested with: the
// in-memory reference store and Exercise, the one suite that each of them must
// pass. It is for tests only and must not know any engine.
package servicetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"velocityd/service"
)

// Memory is the reference store: service.Decide over maps, under one mutex. It
// forgets everything with the process and is NOT for serving. It takes keys as
// they come; a service.Normalizer belongs in front of it.
type Memory struct {
	mu    sync.Mutex
	clock func() time.Time

	zones        map[int64]service.Zone
	overrides    []service.Override // by id
	lastOverride uint64
	lockouts     map[service.Bucket]service.Lockout
	txns         []recorded // txn id n at index n-1
	places       map[service.Bucket][]int
	attempts     map[string]attempt
	audits       []Audit
}

var (
	_ service.CheckStore   = (*Memory)(nil)
	_ service.OutcomeStore = (*Memory)(nil)
	_ service.ZoneLister   = (*Memory)(nil)
)

// recorded is a txn and where the txns of its check are in Memory.txns.
type recorded struct {
	service.Txn
	first, end int
}

// Audit is what Memory keeps in place of a row of zone_audit.
type Audit struct {
	At        time.Time
	ZoneID    int64
	Action    string // such as "put zone" or "release bucket"
	Key       string // of the bucket, or of the override if it has one
	Principal string
	Reason    string
}

// NewMemory returns a Memory without zones that goes by the wall clock.
func NewMemory() *Memory { return NewMemoryAt(time.Now) }

// NewMemoryAt returns a Memory without zones that goes by clock, which is
// called under the store's mutex.
func NewMemoryAt(clock func() time.Time) *Memory {
	return &Memory{
		clock:    clock,
		zones:    map[int64]service.Zone{},
		lockouts: map[service.Bucket]service.Lockout{},
		places:   map[service.Bucket][]int{},
		attempts: map[string]attempt{},
	}
}

// now is the clock as an engine tells it.
func (m *Memory) now() time.Time { return m.clock().UTC().Truncate(time.Microsecond) }

// CheckAll implements service.CheckStore. Its only error is ErrStaleKey.
func (m *Memory) CheckAll(_ context.Context, checks []service.Check) ([]service.Decision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.staleKeys(checks); err != nil {
		return nil, err
	}
	now := m.now()
	decisions := make([]service.Decision, len(checks))
	for i, check := range checks {
		decisions[i] = m.decide(now, check)
	}
	return decisions, nil
}

func (m *Memory) staleKeys(checks []service.Check) error {
	for _, check := range checks {
		for i, rule := range check.KeyRules {
			zone, ok := m.zones[check.Buckets[i].ZoneID]
			if ok && rule.String() != zone.Keys.String() {
				return fmt.Errorf("zone %d has rule %v, key normalised by %v: %w", zone.ID, zone.Keys, rule, service.ErrStaleKey)
			}
		}
	}
	return nil
}

// decide answers one check and records it, unless it is refused or a retry.
func (m *Memory) decide(now time.Time, check service.Check) service.Decision {
	ledger := m.ledger(check.Buckets)
	d := service.Decide(now, ledger, []service.Check{check})[0]
	if d.Err != nil {
		return d
	}
	if first, ok := m.attempts[check.AttemptID]; ok && now.Before(first.expires) {
		return first.replay(check)
	}
	counted := ledger.Apply(d)
	maps.Copy(m.lockouts, ledger.Lockouts)
	m.record(&d, counted, check.AttemptID)
	if check.AttemptID != "" {
		m.remember(check, d)
	}
	return d
}

// ledger is all that a decision about some buckets depends on.
func (m *Memory) ledger(buckets []service.Bucket) service.Ledger {
	ledger := service.Ledger{
		Zones: m.zones, Overrides: m.overrides,
		Counted: map[service.Bucket][]time.Time{}, Lockouts: map[service.Bucket]service.Lockout{},
	}
	for _, b := range buckets {
		if lockout, ok := m.lockouts[b]; ok {
			ledger.Lockouts[b] = lockout
		}
		for _, place := range m.places[b] {
			if txn := m.txns[place]; txn.Counted {
				ledger.Counted[b] = append(ledger.Counted[b], txn.CreatedAt)
			}
		}
	}
	return ledger
}

// record gives each verdict of a decision its txn.
func (m *Memory) record(d *service.Decision, counted []bool, attemptID string) {
	first := len(m.txns)
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		v.TxnID = uint64(len(m.txns) + 1)
		m.places[v.Bucket] = append(m.places[v.Bucket], len(m.txns))
		m.txns = append(m.txns, recorded{first: first, end: first + len(d.Verdicts), Txn: service.Txn{
			ID: v.TxnID, Bucket: v.Bucket, CreatedAt: d.CheckedAt, Blocked: d.Blocked,
			WouldBlock: v.WouldBlock, Counted: counted[i], AttemptID: attemptID,
		}})
	}
}

// Txn returns one recorded attempt, or service.ErrNotFound.
func (m *Memory) Txn(_ context.Context, id uint64) (service.Txn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id < 1 || id > uint64(len(m.txns)) {
		return service.Txn{}, fmt.Errorf("txn %d: %w", id, service.ErrNotFound)
	}
	return m.txns[id-1].Txn, nil
}

// Audits returns who changed what, oldest first.
func (m *Memory) Audits() []Audit {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.audits)
}

func (m *Memory) audit(a Audit) {
	a.At = m.now()
	m.audits = append(m.audits, a)
}
