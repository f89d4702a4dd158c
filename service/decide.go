package service

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Ledger is all that a decision depends on besides the clock. Buckets without
// history need no entry.
type Ledger struct {
	Zones     map[int64]Zone
	Overrides []Override
	// Counted holds for each bucket the instants of its counted txns, in any order.
	Counted  map[Bucket][]time.Time
	Lockouts map[Bucket]Lockout
}

// Decide answers checks in order as if they all happened at now. It is the rule
// itself, without any machine, and the oracle that every store is held against.
// It does NOT change the ledger, assigns no txn ids, knows no AttemptID, and
// takes checks as valid and their keys as normalised.
//
// A txn counts from its instant until Window later: the window is
// (now − Window, now]. Txns later than now, left by a clock that stepped back,
// count as well, so that a step back can never admit more than Rate.
func Decide(now time.Time, ledger Ledger, checks []Check) []Decision {
	ledger = ledger.clone()
	decisions := make([]Decision, len(checks))
	for i, check := range checks {
		decisions[i] = ledger.decide(now, check)
		ledger.Apply(decisions[i])
	}
	return decisions
}

// clone shares the instants themselves, which Apply only appends to.
func (l Ledger) clone() Ledger {
	copied := Ledger{
		Zones: l.Zones, Overrides: l.Overrides, Counted: map[Bucket][]time.Time{}, Lockouts: map[Bucket]Lockout{},
	}
	for b, instants := range l.Counted {
		copied.Counted[b] = slices.Clip(instants)
	}
	maps.Copy(copied.Lockouts, l.Lockouts)
	return copied
}

// Apply records in the ledger what a decision changes, and says for each verdict
// whether its txn counts. A refused check changes nothing.
func (l Ledger) Apply(d Decision) (counted []bool) {
	counted = make([]bool, len(d.Verdicts))
	for i, v := range d.Verdicts {
		zone := l.Zones[v.Bucket.ZoneID].WithDefaults()
		override := l.Override(d.CheckedAt, v.Bucket)
		switch {
		case zone.Mode == ModeOff, override != nil && override.Action != OverrideLimit:
		case v.WouldBlock:
			// It may have found the bucket locked, which locks nothing further.
			if last := l.Lockouts[v.Bucket]; zone.Lockout > 0 && !last.locks(d.CheckedAt, zone) {
				l.Lockouts[v.Bucket] = last.next(d.CheckedAt, zone)
			}
		case !d.Blocked:
			counted[i] = true
			l.Counted[v.Bucket] = append(l.Counted[v.Bucket], d.CheckedAt)
		}
	}
	return counted
}

// Override returns the override in force for a bucket at now, or nil: that of
// the exact key, or else of the longest prefix.
func (l Ledger) Override(now time.Time, bucket Bucket) *Override {
	var found *Override
	for i, o := range l.Overrides {
		if o.Prefix.IsValid() && l.Zones[bucket.ZoneID].Keys.Kind != KeyIP || !o.covers(now, bucket) {
			continue
		}
		if found == nil || o.Key != "" || found.Key == "" && longer(o.Prefix, found.Prefix) {
			found = &l.Overrides[i]
		}
	}
	return found
}

func longer(a, b netip.Prefix) bool { return a.Bits() > b.Bits() }

func (l Ledger) decide(now time.Time, check Check) Decision {
	d := Decision{CheckedAt: now, Verdicts: make([]Verdict, len(check.Buckets))}
	for i, b := range check.Buckets {
		if _, ok := l.Zones[b.ZoneID]; !ok {
			return Decision{Err: fmt.Errorf("zone %d: %w", b.ZoneID, ErrNotFound)}
		}
		d.Verdicts[i] = l.judge(now, b)
		d.Blocked = d.Blocked || d.Verdicts[i].Blocked
		d.WouldBlock = d.WouldBlock || d.Verdicts[i].WouldBlock
	}
	// What is charged shows in the velocity that is answered.
	for i, counted := range l.clone().Apply(d) {
		if counted {
			d.Verdicts[i].Velocity++
		}
	}
	return d
}

// judge answers for one bucket before the check is charged.
func (l Ledger) judge(now time.Time, bucket Bucket) Verdict {
	zone := l.Zones[bucket.ZoneID].WithDefaults()
	override := l.Override(now, bucket)
	if zone.Mode == ModeOff {
		override = nil
	}
	v := Verdict{Bucket: bucket, Rate: zone.Rate, Window: zone.Window}
	if override != nil && override.Action == OverrideLimit {
		v.Rate, v.Window = override.Rate, override.Window
	}
	instants := inWindow(now, v.Window, l.Counted[bucket])
	v.Velocity = min(len(instants), v.Rate)
	if zone.Mode == ModeOff {
		return v
	}
	wait := l.wait(now, zone, override, v, instants)
	v.WouldBlock = wait > 0
	v.Blocked = v.WouldBlock && zone.Mode == ModeEnforce
	if v.Blocked {
		v.RetryAfter = (wait + time.Second - 1).Truncate(time.Second)
	}
	return v
}

// wait is how long it takes until an attempt would pass, and 0 if it passes now.
func (l Ledger) wait(now time.Time, zone Zone, override *Override, v Verdict, instants []time.Time) time.Duration {
	if override != nil {
		switch {
		case override.Action == OverrideAllow:
			return 0
		case override.Action == OverrideDeny && override.ExpiresAt.IsZero():
			return v.Window
		case override.Action == OverrideDeny:
			return override.ExpiresAt.Sub(now)
		}
	}
	full := len(instants) >= v.Rate
	lockout := l.Lockouts[v.Bucket]
	if full && !lockout.locks(now, zone) {
		lockout = lockout.next(now, zone) // does not lock if the zone has none
	}
	var wait time.Duration
	if lockout.locks(now, zone) {
		wait = lockout.Until.Sub(now)
	}
	switch {
	case full && v.Rate == 0:
		wait = max(wait, v.Window)
	case full:
		// Room comes when the rate-th newest txn leaves the window.
		wait = max(wait, instants[v.Rate-1].Add(v.Window).Sub(now))
	}
	return wait
}

// inWindow returns the instants that count at now, newest first.
func inWindow(now time.Time, window time.Duration, counted []time.Time) []time.Time {
	var instants []time.Time
	for _, at := range counted {
		if at.After(now.Add(-window)) {
			instants = append(instants, at)
		}
	}
	slices.SortFunc(instants, func(a, b time.Time) int { return b.Compare(a) })
	return instants
}
