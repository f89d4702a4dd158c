package service

import (
	"fmt"
	"slices"
	"time"
)

// Ledger is all that a decision depends on besides the clock: the zones, and
// for each bucket the instants of its counted txns, in any order.
type Ledger struct {
	Zones   map[int64]Zone
	Counted map[Bucket][]time.Time
}

// Decide answers checks in order as if they all happened at now. It is the rule
// itself, without any machine, and the oracle that every store is held against.
// It does NOT change the ledger, assigns no txn ids, and takes checks as valid.
//
// A txn counts from its instant until Window later: the window is
// (now − Window, now]. Txns later than now, left by a clock that stepped back,
// count as well, so that a step back can never admit more than Rate.
func Decide(now time.Time, ledger Ledger, checks []Check) []Decision {
	charged := map[Bucket]int{} // by earlier checks of this slice
	decisions := make([]Decision, len(checks))
	for i, check := range checks {
		decisions[i] = decideOne(now, ledger, charged, check)
		if decisions[i].Err != nil || decisions[i].Blocked {
			continue
		}
		for _, b := range check.Buckets {
			charged[b]++
		}
	}
	return decisions
}

func decideOne(now time.Time, ledger Ledger, charged map[Bucket]int, check Check) Decision {
	d := Decision{CheckedAt: now, Verdicts: make([]Verdict, len(check.Buckets))}
	for i, b := range check.Buckets {
		zone, ok := ledger.Zones[b.ZoneID]
		if !ok {
			return Decision{Err: fmt.Errorf("zone %d: %w", b.ZoneID, ErrNotFound)}
		}
		d.Verdicts[i] = judge(now, zone, b, inWindow(now, zone, ledger.Counted[b], charged[b]))
		d.Blocked = d.Blocked || d.Verdicts[i].Blocked
	}
	if !d.Blocked {
		for i := range d.Verdicts {
			d.Verdicts[i].Velocity++
		}
	}
	return d
}

// inWindow returns the instants that count at now, newest first, with fresh
// further ones charged at now itself.
func inWindow(now time.Time, zone Zone, counted []time.Time, fresh int) []time.Time {
	instants := slices.Repeat([]time.Time{now}, fresh)
	for _, at := range counted {
		if at.After(now.Add(-zone.Window)) {
			instants = append(instants, at)
		}
	}
	slices.SortFunc(instants, func(a, b time.Time) int { return b.Compare(a) })
	return instants
}

// judge answers for one bucket before the check is charged.
func judge(now time.Time, zone Zone, bucket Bucket, counted []time.Time) Verdict {
	v := Verdict{Bucket: bucket, Rate: zone.Rate, Window: zone.Window}
	v.Velocity = min(len(counted), zone.Rate)
	v.Blocked = len(counted) >= zone.Rate
	switch {
	case !v.Blocked:
	case zone.Rate == 0:
		v.RetryAfter = zone.Window
	default:
		// Room comes when the rate-th newest txn leaves the window.
		free := counted[zone.Rate-1].Add(zone.Window)
		v.RetryAfter = (free.Sub(now) + time.Second - 1).Truncate(time.Second)
	}
	return v
}
