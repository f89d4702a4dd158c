// Package memory is the reference store: a service in memory that decides by the real rules. It stands in for a
// database in tests of programs that ask, and in the suite of tools/servicetest. It does NOT serve, must not know any
// engine, and imports nothing of testing.
package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"velocityd/service"
	"velocityd/service/audit"
	"velocityd/service/event"
	"velocityd/service/webhook"
)

// Store is the reference store: service.Decide over maps, under one mutex. Its data
// ends with the process, so it is NOT for serving. It does not normalise keys: put a
// normalizing service.Limiter in front of it. No other session can hold its buckets, so
// it ignores Call.NoWait.
type Store struct {
	mu    sync.Mutex
	clock func() time.Time

	zones        map[int64]service.Zone
	overrides    []service.Override // by id
	lastOverride uint64
	lockouts     map[service.Bucket]service.Lockout
	series       map[service.Bucket]*service.Series
	txns         []recorded // txn id n at index n-1
	indexes      map[service.Bucket][]int
	attempts     map[string]service.Attempt
	audits       []Audit
	edits        []audit.Edit // the oldest first
	rolledUp     rolledUp
	retention    []service.RetentionTask
	events       []event.Event
	webhooks     []webhook.Webhook // by id
	lastWebhook  uint64
	standing     map[service.Bucket]service.Locked // begun, and not ended by a release
}

var (
	_ service.CheckStore   = (*Store)(nil)
	_ service.OutcomeStore = (*Store)(nil)
	_ service.ZoneLister   = (*Store)(nil)
)

// recorded is a txn, and the range of its check's txns in Store.txns.
type recorded struct {
	service.Txn
	first, end int
	imprint    service.Imprint
}

// Audit is the Store's form of a row of zone_audit.
type Audit struct {
	At        time.Time
	ZoneID    int64
	Action    string // such as "put zone" or "release bucket"
	Key       string // of the bucket, or of the override if it has one
	Principal string
	Reason    string
}

// New returns a Store without zones that uses the wall clock.
func New() *Store { return NewAt(time.Now) }

// NewAt returns a Store without zones that uses clock. It calls clock under its
// mutex.
func NewAt(clock func() time.Time) *Store {
	return &Store{
		clock:    clock,
		zones:    map[int64]service.Zone{},
		lockouts: map[service.Bucket]service.Lockout{},
		series:   map[service.Bucket]*service.Series{},
		indexes:  map[service.Bucket][]int{},
		attempts: map[string]service.Attempt{},
		standing: map[service.Bucket]service.Locked{},
	}
}

// now returns the time as an engine would: in UTC and whole microseconds.
func (m *Store) now() time.Time { return m.clock().UTC().Truncate(time.Microsecond) }

// CheckAll implements service.CheckStore. Its only error is ErrStaleKey.
func (m *Store) CheckAll(_ context.Context, call service.Call) ([]service.Decision, error) {
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
func (m *Store) decide(now time.Time, check service.Check) service.Decision {
	ruling := service.Decide(now, m.ledger(check.Buckets), []service.Check{check})
	maps.Copy(m.lockouts, ruling.Lockouts)
	first := len(m.txns)
	ruling.Number(uint64(first+1), 1)
	for i, txn := range ruling.Txns {
		txn.ID = uint64(first + i + 1)
		if len(ruling.Txns) > 1 {
			txn.CheckID = uint64(first + 1)
		}
		m.indexes[txn.Bucket] = append(m.indexes[txn.Bucket], first+i)
		m.txns = append(m.txns, recorded{first: first, end: first + len(ruling.Txns), Txn: txn, imprint: ruling.Imprints[i]})
	}
	for _, r := range ruling.Repeats {
		txn := &m.txns[r.TxnID-1]
		txn.Attempts, txn.LastAt.Time = txn.Attempts+r.Count, now
	}
	for bucket, series := range ruling.Series {
		place, _ := service.PlaceOf(series.TxnID)
		series.TxnID = uint64(first+1) + place
		m.series[bucket] = &series
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
func (m *Store) ledger(buckets []service.Bucket) service.Ledger {
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
				state.Counted = append(state.Counted, txn.CreatedAt.Time)
			}
			if txn.Counted && txn.Outcome == "" {
				state.Open = append(state.Open, txn.CreatedAt.Time)
			}
			if isTried := state.Imprints != nil && txn.Counted && txn.Outcome != service.OutcomeSuccess; isTried &&
				txn.CreatedAt.After(state.Imprints.Counted[txn.imprint]) {
				state.Imprints.Counted[txn.imprint] = txn.CreatedAt.Time
			}
		}
	}
	return ledger
}

// Txn returns one recorded attempt, or service.ErrNotFound.
func (m *Store) Txn(_ context.Context, id uint64) (service.Txn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id < 1 || id > uint64(len(m.txns)) {
		return service.Txn{}, fmt.Errorf("txn %d: %w", id, service.ErrNotFound)
	}
	return m.txns[id-1].Txn, nil
}

// Audits returns the audit of all changes, the oldest first.
func (m *Store) Audits() []Audit {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.audits)
}

func (m *Store) audit(a Audit) {
	a.At = m.now()
	m.audits = append(m.audits, a)
}
