package backtest_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/audit"
	"velocityd/service/backtest"
	"velocityd/service/memory"
	"velocityd/tools/nightly"
	"velocityd/tools/servicetest"
)

// past is a random timeline on the reference store, by a clock that never stands still, and what its rows tell.
type past struct {
	random   *rand.Rand
	now      time.Time
	store    *memory.Store
	subject  servicetest.Subject
	zones    map[int64]service.Zone
	begin    []service.Zone
	attempts []backtest.Attempt
	changes  []audit.Edit
	checkOf  map[uint64]int // places of attempts by txn ids
	wasOn    map[uint64]bool
	targets  map[string]uint64
}

const zones = 3

// pasts yields new timelines: few, and at night more with other seeds.
func pasts(t *testing.T) iter.Seq[*past] {
	t.Helper()
	first, n := uint64(0), uint64(4)
	if nightly.Is() {
		first, n = uint64(time.Now().UnixNano()), 20
	}
	return func(yield func(*past) bool) {
		for seed := range n {
			if !yield(newPast(t, first+seed)) {
				return
			}
		}
	}
}

func newPast(t *testing.T, seed uint64) *past {
	t.Helper()
	t.Logf("seed %d", seed)
	p := &past{
		random: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 11, 30, 22, 0, 0, 0, time.UTC),
		zones: map[int64]service.Zone{}, checkOf: map[uint64]int{}, wasOn: map[uint64]bool{}, targets: map[string]uint64{},
	}
	p.store = memory.NewAt(func() time.Time { return p.now })
	p.subject = servicetest.InMemory(p.store)
	for id := int64(1); id <= zones; id++ {
		p.edit(t, id)
	}
	p.changes = nil
	for id := int64(1); id <= zones; id++ {
		p.begin = append(p.begin, p.zones[id])
	}
	return p
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// edit sets all of a zone that decides at random.
func (p *past) edit(t *testing.T, id int64) {
	t.Helper()
	zone := randomZone(p.random, id)
	if _, err := p.store.PutZone(t.Context(), zone, service.Match{}, ""); err != nil {
		t.Fatal(err)
	}
	p.zones[id] = zone
	p.changes = append(p.changes, audit.Edit{At: p.now, ZoneAfter: &zone})
}

func randomZone(r *rand.Rand, id int64) service.Zone {
	zone := service.Zone{
		ID: id, Rate: r.IntN(5), Window: pick(r, 5*time.Minute, 30*time.Minute, time.Hour, 2*time.Hour),
		Mode: pick(r, service.ModeEnforce, service.ModeEnforce, service.ModeEnforce, service.ModeShadow,
			service.ModeOff),
		Counts:         pick(r, service.CountsAttempts, service.CountsFailures),
		ReserveTTL:     pick(r, 0, time.Minute, 5*time.Minute),
		ResetOnSuccess: r.IntN(3) == 0,
		Lockout:        pick(r, 0, 0, 4*time.Minute, 50*time.Minute),
		LockoutFactor:  pick(r, 0, 1, 3.33),
		LockoutMax:     pick(r, 0, 4*time.Hour),
		LockoutDecay:   pick(r, 0, 10*time.Minute, 4*time.Hour),
	}
	if r.IntN(3) == 0 {
		zone.Calendar = service.Calendar{Period: pick(r, service.PeriodHour, service.PeriodDay), Offset: pick(r, 0, 345)}
		zone.Window = 0
	}
	if id == 2 {
		zone.Keys.Kind = service.KeyIP
	}
	return zone
}

func (p *past) bucket() service.Bucket {
	switch id := 1 + p.random.Int64N(zones); id {
	case 2:
		return service.Bucket{ZoneID: id, Key: pick(p.random, "203.0.113.9", "203.0.113.10", "198.51.100.7")}
	default:
		return service.Bucket{ZoneID: id, Key: pick(p.random, "alice", "bob", "carol")}
	}
}

// live makes the timeline. With edits, zones change, too.
func (p *past) live(t *testing.T, operations int, edits bool) {
	t.Helper()
	for range operations {
		p.now = p.now.Add(time.Duration(1+p.random.Int64N(int64(3*time.Minute/time.Microsecond))) * time.Microsecond)
		switch n := p.random.IntN(24); {
		case n == 0 && edits:
			p.edit(t, 1+p.random.Int64N(zones))
		case n == 1:
			p.release(t, p.bucket())
		case n <= 3:
			p.override(t, p.bucket())
		case n <= 9:
			p.report(t)
		default:
			p.ask(t, 1+p.random.IntN(3))
		}
		p.look(t)
	}
}

// ask asks some checks at one instant.
func (p *past) ask(t *testing.T, n int) {
	t.Helper()
	var checks []service.Check
	for range n {
		var check service.Check
		for range 1 + p.random.IntN(3) {
			if b := p.bucket(); !slices.Contains(check.Buckets, b) {
				check.Buckets = append(check.Buckets, b)
			}
		}
		checks = append(checks, check)
	}
	decisions, err := p.store.CheckAll(t.Context(), service.Call{Checks: checks})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range decisions {
		a := backtest.Attempt{ID: d.TxnID(), At: d.CheckedAt.Time, Blocked: d.Blocked}
		for _, v := range d.Verdicts {
			a.Places = append(
				a.Places, backtest.Place{Bucket: v.Bucket, TxnID: v.TxnID, WouldBlock: v.WouldBlock, Reason: v.Reason})
			p.checkOf[v.TxnID] = len(p.attempts)
		}
		p.attempts = append(p.attempts, a)
	}
}

// report reports the outcome of one of the last attempts.
func (p *past) report(t *testing.T) {
	t.Helper()
	if len(p.attempts) == 0 {
		return
	}
	a := &p.attempts[len(p.attempts)-1-p.random.IntN(min(8, len(p.attempts)))]
	outcome := pick(p.random, service.OutcomeSuccess, service.OutcomeFailure)
	errs, err := p.store.ReportAll(t.Context(), []service.Report{{TxnID: a.ID, Outcome: outcome}})
	if err != nil {
		t.Fatal(err)
	}
	if errs[0] == nil {
		a.Outcome = outcome
	}
}

func (p *past) release(t *testing.T, b service.Bucket) {
	t.Helper()
	if err := p.store.Release(t.Context(), b, "ann", "test"); err != nil {
		t.Fatal(err)
	}
	p.changes = append(p.changes, audit.Edit{At: p.now, Released: &b})
}

// override sets an override of a bucket or its network, or removes all of its zone.
func (p *past) override(t *testing.T, b service.Bucket) {
	t.Helper()
	if p.random.IntN(3) == 0 {
		p.subject.DeleteOverrides(t, b.ZoneID)
		for target, id := range p.targets {
			if gone := (service.Override{ID: id, ZoneID: b.ZoneID}); target[0] == byte('0'+b.ZoneID) {
				p.changes = append(p.changes, audit.Edit{At: p.now, OverrideBefore: &gone})
				delete(p.targets, target)
			}
		}
		return
	}
	actions := []service.OverrideAction{service.OverrideAllow, service.OverrideDeny, service.OverrideLimit}
	o := service.Override{ZoneID: b.ZoneID, Key: b.Key, Action: pick(p.random, actions...)}
	if o.Action == service.OverrideLimit {
		o.Rate, o.Window.Duration = p.random.IntN(4), pick(p.random, 0, 10*time.Minute, 3*time.Hour)
	}
	if p.random.IntN(2) == 0 {
		o.ExpiresAt.Time = p.now.Add(time.Duration(p.random.IntN(60)) * time.Minute)
	}
	if network, ok := service.NetworkOf(b.Key); ok && b.ZoneID == 2 && p.random.IntN(2) == 0 {
		o.Key, o.Prefix = "", network.Masked()
		if wider, err := network.Addr().Prefix(24); err == nil {
			o.Prefix = wider
		}
	}
	p.subject.SetOverride(t, o)
	target := fmt.Sprint(o.ZoneID, o.Key, o.Prefix)
	if p.targets[target] == 0 {
		p.targets[target] = uint64(len(p.changes) + 1)
	}
	o.ID = p.targets[target]
	p.changes = append(p.changes, audit.Edit{At: p.now, OverrideAfter: &o})
}

// look notes which places were given back by the last operation.
func (p *past) look(t *testing.T) {
	t.Helper()
	for id, i := range p.checkOf {
		txn, err := p.store.Txn(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if p.wasOn[id] && !txn.Counted {
			for j := range p.attempts[i].Places {
				if place := &p.attempts[i].Places[j]; place.TxnID == id {
					place.UncountedAt = p.now
				}
			}
		}
		p.wasOn[id] = txn.Counted
	}
}
