package backtest

import (
	"time"

	"velocityd/service"
)

// ledgerBuilder builds the ledger of one attempt for Decide, with a check for each plan. All its slices are reused.
type ledgerBuilder struct {
	ledger     service.Ledger
	checks     []service.Check
	buckets    []service.Bucket
	places     []int
	velocities []service.Velocity
	held       []*bucket
	decider    service.Decider
}

// build builds the ledger of an attempt, and returns its buckets.
func (d *ledgerBuilder) build(r *Replay, a Attempt) []*bucket {
	plans, width := r.settings.plans(), len(a.Places)
	d.size(plans, width)
	d.ledger.Zones, d.ledger.Overrides = r.settings.planned, d.ledger.Overrides[:0]
	for j, place := range a.Places {
		held := r.bucket(place.Bucket)
		d.held[j] = held
		terms, _ := r.settings.knows(place.Bucket.ZoneID)
		override := r.settings.inForce(a.At, place.Bucket)
		for plan := range plans {
			at := plan*width + j
			d.buckets[at] = service.Bucket{ZoneID: planID(place.Bucket.ZoneID, plan), Key: place.Bucket.Key}
			term := terms[plan]
			if override != nil {
				term = r.settings.under(place.Bucket.ZoneID, plan).TermUnder(override)
				d.addOverride(*override, plan)
			}
			d.velocities[at] = velocity(held, plan, term, a.At)
			d.ledger.Buckets[at] = service.BucketState{Velocity: &d.velocities[at], Lockout: held.lockout(plan)}
		}
	}
	return d.held
}

// size gives the slices their lengths.
func (d *ledgerBuilder) size(plans, width int) {
	if width == len(d.held) {
		return
	}
	n := plans * width
	d.held = make([]*bucket, width)
	d.checks, d.buckets = make([]service.Check, plans), make([]service.Bucket, n)
	d.places, d.velocities = make([]int, n), make([]service.Velocity, n)
	d.ledger.Buckets, d.ledger.Places = make([]service.BucketState, n), make([][]int, plans)
	for at := range d.places {
		d.places[at] = at
	}
	for plan := range plans {
		d.checks[plan].Buckets = d.buckets[plan*width : (plan+1)*width]
		d.ledger.Places[plan] = d.places[plan*width : (plan+1)*width]
	}
}

// addOverride adds an override under a plan.
func (d *ledgerBuilder) addOverride(o service.Override, plan int) {
	o.ZoneID = planID(o.ZoneID, plan)
	d.ledger.Overrides = append(d.ledger.Overrides, o)
}

// velocity counts the attempts of a bucket under a plan.
func velocity(held *bucket, plan int, term service.Term, now time.Time) (v service.Velocity) {
	if len(held.entries) == 0 {
		return v
	}
	count, oldest := held.tally(plan, term.Since(now).UnixMicro())
	if count > 0 {
		v = service.Velocity{Count: count, Oldest: instantOf(oldest)}
	}
	return v
}

// decide asks the rule about the attempt under all plans at once.
func (d *ledgerBuilder) decide(settings *settings, now time.Time) service.Ruling {
	if settings.isChanged {
		settings.isChanged = false
		d.decider.Forget()
	}
	return d.decider.Decide(now, d.ledger, d.checks)
}
