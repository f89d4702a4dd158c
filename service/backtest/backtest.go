// Package backtest owns the replay of recorded attempts under other settings of a zone: many proposals in one pass,
// each attempt decided by service.Decide. It carries the state of each bucket in flat memory, and forgets it when it
// can not count any more. It must not know SQL, HTTP or files: callers bring attempts in time order, and the changes of
// zones and overrides that were made meanwhile.
package backtest

import (
	"iter"
	"slices"
	"time"

	"velocityd/service"
	"velocityd/service/audit"
)

// Bounds of a back-test.
const (
	// MaxProposals is how many proposals are replayed in one pass.
	MaxProposals = 31
	// MaxTime bounds the time of a back-test.
	MaxTime = 366 * 24 * time.Hour
	// samples is how many attempts of each kind of difference a proposal names.
	samples = 5
)

// Attempt is a recorded attempt: one check, and all its buckets.
type Attempt struct {
	ID      uint64 // of its first txn
	At      time.Time
	Blocked bool
	Outcome service.Outcome
	Places  []Place
}

// isPartial says that the bucket which blocked the attempt has no row of it, because an earlier row counts it.
func (a Attempt) isPartial() bool {
	return a.Blocked && !slices.ContainsFunc(a.Places, func(p Place) bool { return p.WouldBlock })
}

// Place is the recorded verdict of an attempt in one bucket.
type Place struct {
	Bucket     service.Bucket
	TxnID      uint64
	WouldBlock bool
	Reason     service.Reason
	// UncountedAt is when the place was given back: by a success, a reset or a release. It is zero if it was not, or if
	// that is not known.
	UncountedAt time.Time
	// Repeats are the later blocked attempts that the txn stands for. They have no instants, so no replay asks for them.
	Repeats int
}

// Setup is all that a replay depends on besides the attempts.
type Setup struct {
	ZoneID int64
	// Proposals are the settings to be tried, each for the whole time: the zone with other values. A replay enforces them,
	// whatever their Mode is. There are 1 to MaxProposals.
	Proposals []service.Zone
	// Past holds for all proposals, but for the settings of the tested zone.
	Past
	// From is the first instant whose attempts are counted. Earlier ones fill the buckets only: see Warmup.
	From time.Time
}

// Past are the settings as they were.
type Past struct {
	// Zones and Overrides are those of the begin, and Edits came later, in any order.
	Zones     []service.Zone
	Overrides []service.Override
	Edits     []audit.Edit
	// IsPresent says that the edits could not be read: zones and overrides are those of now.
	IsPresent bool
}

// Grid is a question about several values of several settings: each value is tried with each of the others. An empty
// list is the value that the zone has.
type Grid struct {
	Rates []int `json:"rates,omitzero"`
	// Windows slide, and Periods are those of the calendar: a zone has one of both.
	Windows  []service.Duration `json:"windows,omitzero"`
	Periods  []service.Period   `json:"periods,omitzero"`
	Lockouts []service.Duration `json:"lockouts,omitzero"`
	Counts   []service.Counts   `json:"counts,omitzero"`
}

// Proposals returns the zones of a grid, in the order of its lists. The error is a service.ErrInvalid that names the
// field.
func (g Grid) Proposals(zone service.Zone) ([]service.Zone, error) {
	zone = zone.WithDefaults()
	zone.Mode = service.ModeEnforce
	list := g.terms(zone)
	list = with(list, g.Rates, func(z *service.Zone, rate int) { z.Rate = rate })
	list = with(list, g.Lockouts, func(z *service.Zone, lockout service.Duration) {
		z.Lockout, z.LockoutMax = lockout.Duration, max(lockout.Duration, z.LockoutMax)
	})
	list = with(list, g.Counts, func(z *service.Zone, counts service.Counts) { z.Counts = counts })
	if len(list) > MaxProposals {
		return nil, service.NewFieldError("rate", "and the other lists make %d proposals: at most %d are replayed at once",
			len(list), MaxProposals)
	}
	for i, proposal := range list {
		if err := proposal.Validate(); err != nil {
			return nil, err
		}
		list[i] = proposal.WithDefaults()
	}
	return list, nil
}

// terms returns the zone with each window and each period.
func (g Grid) terms(zone service.Zone) (list []service.Zone) {
	if len(g.Windows)+len(g.Periods) == 0 {
		return []service.Zone{zone}
	}
	for _, window := range g.Windows {
		slides := zone
		slides.Calendar, slides.Window = service.Calendar{}, window.Duration
		slides.ReserveTTL = min(slides.ReserveTTL, slides.Window)
		list = append(list, slides)
	}
	for _, period := range g.Periods {
		counted := zone
		counted.Calendar.Period, counted.Window = period, period.Length()
		counted.ReserveTTL = min(counted.ReserveTTL, counted.Window)
		list = append(list, counted)
	}
	return list
}

// with returns each zone of a list with each of some values.
func with[T any](list []service.Zone, values []T, set func(*service.Zone, T)) []service.Zone {
	if len(values) == 0 {
		return list
	}
	var all []service.Zone
	for _, zone := range list {
		for _, value := range values {
			changed := zone
			set(&changed, value)
			all = append(all, changed)
		}
	}
	return all
}

// Warmup returns how long before From the attempts must begin so that each bucket is full or locked as it was. A chain
// of lockouts, each of which made the next one longer, may reach further back, and so may the windows of other zones
// that are longer than a day.
func (s Setup) Warmup() time.Duration {
	ofTested := func(zone service.Zone) time.Duration {
		if zone.ID != s.ZoneID {
			return min(reach(zone), maxOtherWarmup)
		}
		return reach(zone)
	}
	return max(s.longest(ofTested), s.longestOverride())
}

// reach returns for how long an attempt in a zone, or a lockout that it begins, has an effect.
func reach(zone service.Zone) time.Duration {
	if zone.Lockout == 0 {
		return zone.Window
	}
	return max(zone.Window, zone.LockoutMax+zone.LockoutDecay)
}

// windows returns for how long an attempt counts at most in each zone.
func (s Setup) windows() map[int64]time.Duration {
	override, longest := s.longestOverride(), map[int64]time.Duration{}
	for zone := range s.everyZone() {
		longest[zone.ID] = max(longest[zone.ID], zone.Window, override)
	}
	return longest
}

// decay returns for how long a lockout that ended makes the next one longer, at most.
func (s Setup) decay() time.Duration {
	return s.longest(func(zone service.Zone) time.Duration { return zone.LockoutDecay })
}

// longest returns the longest length of all zones as they ever are.
func (s Setup) longest(length func(service.Zone) time.Duration) (longest time.Duration) {
	for zone := range s.everyZone() {
		longest = max(longest, length(zone))
	}
	return longest
}

// everyZone yields all zones as they ever are, with every setting spelt out.
func (s Setup) everyZone() iter.Seq[service.Zone] {
	return func(yield func(service.Zone) bool) {
		for _, list := range [][]service.Zone{s.Proposals, s.Zones} {
			for _, zone := range list {
				if !yield(zone.WithDefaults()) {
					return
				}
			}
		}
		for _, e := range s.Edits {
			if e.ZoneAfter != nil && !yield(e.ZoneAfter.WithDefaults()) {
				return
			}
		}
	}
}

// longestOverride returns the longest window of the overrides.
func (s Setup) longestOverride() (longest time.Duration) {
	for _, o := range s.Overrides {
		longest = max(longest, o.Window.Duration)
	}
	for _, e := range s.Edits {
		if e.OverrideAfter != nil {
			longest = max(longest, e.OverrideAfter.Window.Duration)
		}
	}
	return longest
}

// isPartial says that the tested zone has settings that need more than the record has.
func (s Setup) isPartial() bool {
	return slices.ContainsFunc(
		s.Proposals, func(z service.Zone) bool { return z.Concurrent > 0 || z.RepeatSecret == service.RepeatFree })
}
