// Package servicetest holds the in-memory reference store and Exercise, the test suite
// that every store of checks must pass. It is for tests only and must not know any
// engine.
package servicetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/explain"
	"velocityd/service/webhook"
)

// Memory is the reference store: service.Decide over maps, under one mutex. Its data
// ends with the process, so it is NOT for serving. It does not normalise keys: put a
// normalizing service.Limiter in front of it. No other session can hold its buckets, so
// it ignores Call.NoWait.
type Memory struct {
	mu    sync.Mutex
	clock func() time.Time

	zones        map[int64]service.Zone
	overrides    []service.Override // by id
	lastOverride uint64
	lockouts     map[service.Bucket]service.Lockout
	series       map[service.Bucket]service.Series
	txns         []recorded // txn id n at index n-1
	indexes      map[service.Bucket][]int
	attempts     map[string]service.Attempt
	audits       []Audit
	changes      []explain.Change // the oldest first
	releases     []explain.Release
	rolledUp     rolledUp
	retention    []service.RetentionTask
	events       []event.Event
	webhooks     []webhook.Webhook // by id
	lastWebhook  uint64
	standing     map[service.Bucket]service.Locked // begun, and not ended by a release
}

var (
	_ service.CheckStore   = (*Memory)(nil)
	_ service.OutcomeStore = (*Memory)(nil)
	_ service.ZoneLister   = (*Memory)(nil)
)

// recorded is a txn, and the range of its check's txns in Memory.txns.
type recorded struct {
	service.Txn
	first, end int
	imprint    service.Imprint
}

// Audit is Memory's form of a row of zone_audit.
type Audit struct {
	At        time.Time
	ZoneID    int64
	Action    string // such as "put zone" or "release bucket"
	Key       string // of the bucket, or of the override if it has one
	Principal string
	Reason    string
}

// NewMemory returns a Memory without zones that uses the wall clock.
func NewMemory() *Memory { return NewMemoryAt(time.Now) }

// NewMemoryAt returns a Memory without zones that uses clock. It calls clock under its
// mutex.
func NewMemoryAt(clock func() time.Time) *Memory {
	return &Memory{
		clock:    clock,
		zones:    map[int64]service.Zone{},
		lockouts: map[service.Bucket]service.Lockout{},
		series:   map[service.Bucket]service.Series{},
		indexes:  map[service.Bucket][]int{},
		attempts: map[string]service.Attempt{},
		standing: map[service.Bucket]service.Locked{},
	}
}

// now returns the time as an engine would: in UTC and whole microseconds.
func (m *Memory) now() time.Time { return m.clock().UTC().Truncate(time.Microsecond) }

// CheckAll implements service.CheckStore. Its only error is ErrStaleKey.
func (m *Memory) CheckAll(_ context.Context, call service.Call) ([]service.Decision, error) {
	checks := call.Checks
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := service.StaleKey(m.zones, checks); err != nil {
		return nil, err
	}
	now := m.now()
	decisions := make([]service.Decision, len(checks))
	for i, check := range checks {
		decisions[i] = m.decide(now, check)
	}
	return decisions, nil
}

// decide answers one check and records it, unless it is refused or a retry.
func (m *Memory) decide(now time.Time, check service.Check) service.Decision {
	ruling := service.Decide(now, m.ledger(check.Buckets), []service.Check{check})
	maps.Copy(m.lockouts, ruling.Lockouts)
	first := len(m.txns)
	ruling.Number(uint64(first+1), 1)
	for i, txn := range ruling.Txns {
		txn.ID = uint64(first + i + 1)
		m.indexes[txn.Bucket] = append(m.indexes[txn.Bucket], first+i)
		m.txns = append(m.txns, recorded{first: first, end: first + len(ruling.Txns), Txn: txn, imprint: ruling.Imprints[i]})
	}
	for _, r := range ruling.Repeats {
		txn := &m.txns[r.TxnID-1]
		txn.Attempts, txn.LastAt = txn.Attempts+r.Count, now
	}
	for bucket, series := range ruling.Series {
		place, _ := service.PlaceOf(series.TxnID)
		series.TxnID = uint64(first+1) + place
		m.series[bucket] = series
	}
	m.tellLockouts(now, ruling.Locked())
	d := ruling.Decisions[0]
	if check.AttemptID != "" && len(ruling.Recorded) > 0 {
		kept := d
		kept.Verdicts = slices.Clone(d.Verdicts)
		m.attempts[check.AttemptID] = service.NewAttempt(kept)
	}
	return d
}

// ledger returns all that a decision about buckets depends on.
func (m *Memory) ledger(buckets []service.Bucket) service.Ledger {
	ledger := service.Ledger{
		Zones: m.zones, Overrides: m.overrides, Attempts: m.attempts,
		Buckets: make([]service.BucketState, len(buckets)), Places: [][]int{make([]int, len(buckets))},
	}
	for place, b := range buckets {
		state := &ledger.Buckets[place]
		state.Lockout, state.Series, ledger.Places[0][place] = m.lockouts[b], m.series[b], place
		if m.zones[b.ZoneID].RepeatSecret == service.RepeatFree {
			state.Imprints = &service.Imprints{Counted: map[service.Imprint]time.Time{}}
		}
		for _, i := range m.indexes[b] {
			txn := m.txns[i]
			if txn.Counted {
				state.Counted = append(state.Counted, txn.CreatedAt)
			}
			if txn.Counted && txn.Outcome == "" {
				state.Open = append(state.Open, txn.CreatedAt)
			}
			if isTried := state.Imprints != nil && txn.Counted && txn.Outcome != service.OutcomeSuccess; isTried &&
				txn.CreatedAt.After(state.Imprints.Counted[txn.imprint]) {
				state.Imprints.Counted[txn.imprint] = txn.CreatedAt
			}
		}
	}
	return ledger
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

// Audits returns the audit of all changes, the oldest first.
func (m *Memory) Audits() []Audit {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.audits)
}

func (m *Memory) audit(a Audit) {
	a.At = m.now()
	m.audits = append(m.audits, a)
}
