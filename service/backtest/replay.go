package backtest

import (
	"container/heap"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"velocityd/service"
)

// Replay decides recorded attempts under the settings as they were and under each proposal. It holds memory for the
// buckets that an attempt or a lockout still counts in, and for those that a proposal blocked.
type Replay struct {
	setup    Setup
	settings *settings
	demands  []demand
	// horizons are how long an attempt can count at most, in each zone: a bucket of a short window must not be kept as
	// long as one of another zone's long window.
	horizons map[int64]time.Duration
	memory   time.Duration // how long a lockout has an effect after its end, at most
	buckets  map[service.Bucket]*bucket
	sweepAt  int // buckets
	returns  returns
	builder  ledgerBuilder
	counts   counts
}

// firstSweep is how many buckets are held before those that are over are looked for.
const firstSweep = 4096

// New returns the Replay of a setup. The error is a service.ErrInvalid that names the field.
func New(s Setup) (*Replay, error) {
	switch n := len(s.Proposals); {
	case n < 1 || n > MaxProposals:
		return nil, service.NewFieldError("proposals", "must be 1 to %d, are %d", MaxProposals, n)
	case s.ZoneID < 1 || s.ZoneID > service.MaxZoneID:
		return nil, service.NewFieldError("zone_id", "must be 1 to %d, is %d", service.MaxZoneID, s.ZoneID)
	}
	for i, proposal := range s.Proposals {
		if proposal.ID != s.ZoneID {
			return nil, service.NewFieldError("proposals", "must be of zone %d, number %d is of zone %d", s.ZoneID, i+1,
				proposal.ID)
		}
		if err := proposal.Validate(); err != nil {
			return nil, fmt.Errorf("proposal %d: %w", i+1, err)
		}
	}
	r := &Replay{
		setup: s, settings: newSettings(s), demands: demandsOf(s), buckets: map[service.Bucket]*bucket{}, sweepAt: firstSweep,
		horizons: s.windows(), memory: s.decay(),
	}
	r.counts = newCounts(r.settings.plans())
	return r, nil
}

// Add replays the next attempt. Attempts come in time order, and those of one instant by their ids. It returns nothing
// that is kept: a may be used again.
func (r *Replay) Add(a Attempt) {
	r.advance(a.At)
	if a.isPartial() {
		r.counts.partial++
		return
	}
	for _, place := range a.Places {
		if _, exists := r.settings.knows(place.Bucket.ZoneID); !exists {
			r.counts.unknown++
			return
		}
	}
	held := r.builder.build(r, a)
	ruling := r.builder.decide(r.settings, a.At)
	for _, d := range ruling.Decisions {
		if d.Err != nil {
			r.counts.unknown++
			return
		}
	}
	r.measure(a, held)
	r.record(a, held, ruling)
	r.counts.add(r, a, ruling)
	if len(r.buckets) > r.sweepAt {
		r.sweep(a.At)
	}
}

// advance makes the edits up to an instant, and gives places back.
func (r *Replay) advance(now time.Time) {
	for {
		at, ok := r.settings.due(now)
		if !ok {
			break
		}
		r.giveBack(at.UnixMicro())
		e := r.settings.edit()
		if e.Released == nil {
			continue
		}
		if b := r.buckets[*e.Released]; b != nil {
			r.empty(*e.Released, b, r.proposed(), e.At)
			b.locks = nil
		}
	}
	r.giveBack(now.UnixMicro())
}

// empty lets the attempts of a bucket no longer count that count at an instant, in the lanes of some plans.
func (r *Replay) empty(of service.Bucket, b *bucket, plans uint64, at time.Time) {
	if _, exists := r.settings.knows(of.ZoneID); !exists {
		return
	}
	override := r.settings.inForce(at, of)
	for ; plans != 0; plans &= plans - 1 {
		plan := bits.TrailingZeros64(plans)
		b.empty(plan, service.UncountSince(at, r.settings.under(of.ZoneID, plan), override).UnixMicro())
	}
}

// proposed are the lanes of all proposals. Those of the plan as it was are given back by the rows alone.
func (r *Replay) proposed() uint64 { return (1<<r.settings.plans() - 1) &^ 1 }

// giveBack gives back the places that end up to an instant.
func (r *Replay) giveBack(now int64) {
	for len(r.returns) > 0 && r.returns[0].when <= now {
		due := heap.Pop(&r.returns).(returned) //nolint:errcheck // a heap of these alone
		due.state.giveBack(due.at, due.lanes)
		r.empty(due.of, due.state, due.resets, instantOf(due.when))
	}
}

// bucket returns the state of a bucket, which is empty at first.
func (r *Replay) bucket(of service.Bucket) *bucket {
	b := r.buckets[of]
	if b == nil {
		b = &bucket{}
		if of.ZoneID == r.setup.ZoneID {
			b.bursts = make([]burst, len(r.demands))
		}
		r.buckets[of] = b
	}
	return b
}

// lanes are those of all plans and of all demands.
func (r *Replay) lanes() int { return r.settings.plans() + len(r.demands) }

// record notes the results of a decision under all plans.
func (r *Replay) record(a Attempt, held []*bucket, ruling service.Ruling) {
	at, plans := a.At.UnixMicro(), r.settings.plans()
	for j, place := range a.Places {
		e := entry{at: at}
		for plan := range plans {
			if ruling.Txns[plan*len(held)+j].Counted {
				e.lanes |= 1 << plan
			}
		}
		counted := e.lanes
		if place.Bucket.ZoneID == r.setup.ZoneID {
			e.lanes |= r.demandLanes(a)
		}
		if e.lanes != 0 {
			held[j].add(e, r.lanes(), at-r.horizons[place.Bucket.ZoneID].Microseconds())
		}
		r.settle(a, place, held[j], counted, ruling)
	}
	for locked, lockout := range ruling.Lockouts {
		zone, plan := planOf(locked.ZoneID)
		for j, place := range a.Places {
			if place.Bucket.ZoneID == zone && place.Bucket.Key == locked.Key {
				held[j].lockOut(plan, plans, lockout)
			}
		}
	}
}

// settle notes when the places of an attempt in one bucket are given back, and which buckets its success resets. As it
// was, places are given back when the rows say so. Under the proposals a success gives them back.
func (r *Replay) settle(a Attempt, place Place, state *bucket, counted uint64, ruling service.Ruling) {
	own := returned{of: place.Bucket, state: state, at: a.At.UnixMicro()}
	success := own
	if isKnown := !place.UncountedAt.IsZero(); isKnown {
		own.when, own.lanes = place.UncountedAt.UnixMicro(), counted&1
	}
	if a.Outcome == service.OutcomeSuccess {
		at := r.reportedAt(a)
		success.when = at.UnixMicro()
		for plan := 1; plan < r.settings.plans(); plan++ {
			zone := r.settings.under(place.Bucket.ZoneID, plan)
			if ruling.Decisions[plan].Blocked || r.isLate(a, plan, at) {
				continue
			}
			if zone.Counts == service.CountsFailures {
				success.lanes |= counted & (1 << plan)
			}
			if zone.ResetOnSuccess {
				success.resets |= 1 << plan
			}
		}
	}
	for _, due := range []returned{own, success} {
		if due.lanes|due.resets != 0 {
			heap.Push(&r.returns, due)
		}
	}
}

// reportedAt returns when the success of an attempt was reported, as far as its rows tell: otherwise at once.
func (r *Replay) reportedAt(a Attempt) time.Time {
	at := a.At.Add(time.Microsecond)
	for _, place := range a.Places {
		zone := r.settings.under(place.Bucket.ZoneID, 0)
		if (zone.Counts == service.CountsFailures || zone.ResetOnSuccess) && place.UncountedAt.After(at) {
			at = place.UncountedAt
		}
	}
	return at
}

// isLate says that a success at an instant comes too late for an attempt under a plan.
func (r *Replay) isLate(a Attempt, plan int, at time.Time) bool {
	return slices.ContainsFunc(a.Places, func(place Place) bool {
		zone := r.settings.under(place.Bucket.ZoneID, plan)
		return zone.Counts == service.CountsFailures && at.After(a.At.Add(zone.ReserveTTL))
	})
}

// sweep forgets the buckets in which nothing counts any more.
func (r *Replay) sweep(now time.Time) {
	locks := now.Add(-r.memory).UnixMicro()
	for of, b := range r.buckets {
		if b.isOver(now.Add(-r.horizons[of.ZoneID]).UnixMicro(), locks) {
			r.end(b)
			delete(r.buckets, of)
		}
	}
	r.sweepAt = max(firstSweep, 2*len(r.buckets))
}

// returned are places that are given back at an instant.
type returned struct {
	when   int64
	of     service.Bucket
	state  *bucket
	at     int64  // of the attempt
	lanes  uint64 // in which it stops counting
	resets uint64 // in which all attempts of the bucket do
}

// returns is a heap by time.
type returns []returned

func (h returns) Len() int           { return len(h) }
func (h returns) Less(i, j int) bool { return h[i].when < h[j].when }
func (h returns) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *returns) Push(x any) { *h = append(*h, x.(returned)) } //nolint:errcheck // likewise

// Pop implements heap.Interface.
func (h *returns) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
