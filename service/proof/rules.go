package proof

import (
	"math"
	"net/netip"
	"slices"
	"time"

	"velocityd/service"
)

// slack is by how much later than its time in zone_audit a change may come into force: when its transaction is
// committed.
const slack = 2 * time.Minute

// Rules are the limits that were in force at each time. The changes of each zone, and of each override, are added in
// their order, then the present zones and overrides; then Settle is called.
type Rules struct {
	// Complete is the time from which on all changes were added. The zero time is the begin.
	Complete time.Time
	// ReadAt is the instant at which the changes were read. Later releases are not among them.
	ReadAt time.Time
	// ClockWasSet says that the clock went back at times, by itself or by hand. Then the instant at which a
	// place was given back tells nothing of later txns: such a place is taken to be free, and refusals are not judged.
	ClockWasSet bool

	zones     map[int64][]version
	present   map[int64]bool        // zones that are there now
	overrides map[uint64]*exception // by their ids
	exact     map[service.Bucket][]*exception
	networks  map[int64]networks
	released  map[service.Bucket][]time.Time
	hidden    map[int64]bool // zones of pseudonyms with overrides of keys
	lockouts  map[int64]lockoutBounds
	hasSeries bool // some zone counted attempts in txns of earlier ones
}

// lockoutBounds are those of all states of a zone, in microseconds: a lockout outlasts an edit of the zone.
type lockoutBounds struct{ longest, leastDecay, mostDecay int64 }

// networks are the overrides of a zone by their prefixes, and the lengths of these.
type networks struct {
	lengths map[int]bool
	of      map[netip.Prefix][]*exception
}

// version is a zone as it was from a time on, until the next one.
type version struct {
	from    time.Time
	zone    *service.Zone // nil: there was none, or it is not known
	isKnown bool
	longest time.Duration // for which a txn counts by this version or a later one
	plain   []limit       // of buckets without overrides
}

// exception is an override as it was at each time.
type exception struct {
	states []state
	// longest is for how long a txn counts by any of its states.
	longest time.Duration
	// isUnsure says that no change made it: it is there now, since an unknown time.
	isUnsure bool
}

// state is an override as it was from a time on, until the next state; nil: there was none.
type state struct {
	from     time.Time
	override *service.Override
}

// NewRules returns rules without zones.
func NewRules() *Rules {
	return &Rules{
		zones: map[int64][]version{}, present: map[int64]bool{},
		overrides: map[uint64]*exception{}, exact: map[service.Bucket][]*exception{},
		networks: map[int64]networks{}, released: map[service.Bucket][]time.Time{}, hidden: map[int64]bool{},
		lockouts: map[int64]lockoutBounds{},
	}
}

// AddChange adds a change of a zone. before and after are nil where there was none.
func (r *Rules) AddChange(at time.Time, id int64, before, after *service.Zone) {
	versions := r.zones[id]
	switch last := len(versions) - 1; {
	case last < 0:
		// The first revision was never changed before.
		isFirst := before == nil || before.Revision <= 1 || !r.Complete.IsZero()
		versions = append(versions, version{zone: before, isKnown: isFirst})
	case !same(versions[last].zone, before):
		versions[last].isKnown = false // a change in between is missing
	}
	r.zones[id] = append(versions, version{from: at, zone: after, isKnown: true})
}

// AddZone adds a zone as it is now. If the changes do not end in it, it is not known since when it is so.
func (r *Rules) AddZone(zone service.Zone) {
	r.present[zone.ID] = true
	versions := r.zones[zone.ID]
	switch last := len(versions) - 1; {
	case last < 0:
		isFirst := zone.Revision <= 1 || !r.Complete.IsZero()
		r.zones[zone.ID] = []version{{zone: &zone, isKnown: isFirst}}
	case !same(versions[last].zone, &zone):
		versions[last].isKnown = false
	}
}

// same says that two states of a zone are one.
func same(a, b *service.Zone) bool {
	return a == nil && b == nil || a != nil && b != nil && a.WithDefaults() == b.WithDefaults()
}

// AddRelease notes that a bucket was released: its lockout ended, and its places were given back.
func (r *Rules) AddRelease(at time.Time, bucket service.Bucket) {
	r.released[bucket] = append(r.released[bucket], at)
}

// wasReleased says that a bucket was released at an instant or between it and another one.
func (r *Rules) wasReleased(bucket service.Bucket, since, until time.Time) bool {
	isThen := func(at time.Time) bool { return !at.Before(since) && !at.After(until) }
	return slices.ContainsFunc(r.released[bucket], isThen)
}

// AddOverrideChange adds a change of an override. before and after are nil where there was none.
func (r *Rules) AddOverrideChange(at time.Time, id uint64, before, after *service.Override) {
	e := r.exceptionOf(id)
	if len(e.states) == 0 && before != nil {
		e.states = append(e.states, state{override: before})
	}
	e.states = append(e.states, state{from: at, override: after})
}

// AddOverride adds an override as it is now. Without a change that made it, it is older than all changes that were
// added; if these reach to the begin, it is not known since when it is there.
func (r *Rules) AddOverride(o service.Override) {
	if e := r.exceptionOf(o.ID); len(e.states) == 0 {
		e.states, e.isUnsure = []state{{override: &o}}, r.Complete.IsZero()
	}
}

func (r *Rules) exceptionOf(id uint64) *exception {
	e := r.overrides[id]
	if e == nil {
		e = &exception{}
		r.overrides[id] = e
	}
	return e
}

// Settle makes the rules ready for questions.
func (r *Rules) Settle() {
	for id, versions := range r.zones {
		if last := &versions[len(versions)-1]; last.zone != nil && !r.present[id] {
			last.isKnown = false // the change that deleted it is missing
		}
		bounds := lockoutBounds{leastDecay: math.MaxInt64}
		for i := range slices.Backward(versions) {
			v := &versions[i]
			if v.zone != nil {
				zone := v.zone.WithDefaults()
				v.zone, v.longest, v.plain = &zone, zone.Window, []limit{limitOf(&zone, nil)}
				r.hasSeries = r.hasSeries || zone.HasSeries()
				bounds.longest = max(bounds.longest, zone.LockoutMax.Microseconds())
				bounds.leastDecay = min(bounds.leastDecay, zone.LockoutDecay.Microseconds())
				bounds.mostDecay = max(bounds.mostDecay, zone.LockoutDecay.Microseconds())
			}
			if i+1 < len(versions) {
				v.longest = max(v.longest, versions[i+1].longest)
			}
		}
		r.lockouts[id] = bounds
	}
	for _, e := range r.overrides {
		for _, s := range e.states {
			if o := s.override; o != nil {
				e.longest = max(e.longest, o.Window.Duration)
			}
		}
		r.index(e)
	}
}

// index enters an exception where its buckets find it.
func (r *Rules) index(e *exception) {
	for _, s := range e.states {
		switch o := s.override; {
		case o == nil:
		case o.Key != "":
			b := service.Bucket{ZoneID: o.ZoneID, Key: o.Key}
			r.hidden[o.ZoneID] = r.hidden[o.ZoneID] || service.IsPseudonym(o.Key)
			if !slices.Contains(r.exact[b], e) {
				r.exact[b] = append(r.exact[b], e)
			}
		default:
			r.indexNetwork(o, e)
		}
	}
}

func (r *Rules) indexNetwork(o *service.Override, e *exception) {
	n, exists := r.networks[o.ZoneID]
	if !exists {
		n = networks{map[int]bool{}, map[netip.Prefix][]*exception{}}
		r.networks[o.ZoneID] = n
	}
	if n.lengths[o.Prefix.Bits()] = true; !slices.Contains(n.of[o.Prefix], e) {
		n.of[o.Prefix] = append(n.of[o.Prefix], e)
	}
}

// exceptionsOf returns the overrides that a bucket ever had, and those of networks that hold it.
func (r *Rules) exceptionsOf(bucket service.Bucket) []*exception {
	list := r.exact[bucket]
	n, exists := r.networks[bucket.ZoneID]
	if !exists {
		return list
	}
	network, isAddress := service.NetworkOf(bucket.Key)
	if !isAddress {
		return list
	}
	list = slices.Clone(list)
	for bits := range n.lengths {
		if prefix, err := network.Addr().Prefix(bits); err == nil && bits <= network.Bits() {
			list = append(list, n.of[prefix]...)
		}
	}
	return list
}

// Longest returns the longest time for which a txn counts in any zone from a time on.
func (r *Rules) Longest(at time.Time) (longest time.Duration) {
	for id := range r.zones {
		r.eachVersion(id, at, func(v *version) { longest = max(longest, v.longest) })
	}
	for _, e := range r.overrides {
		longest = max(longest, e.longest)
	}
	return longest
}

// zonesAt returns the states of a zone of which one was in force at a time. It is not known which they are if
// zone_audit does not reach so far.
func (r *Rules) zonesAt(id int64, at time.Time) (zones []*service.Zone, known bool) {
	known = !at.Before(r.Complete)
	r.eachVersion(id, at, func(v *version) {
		if known = known && v.isKnown; v.zone != nil {
			zones = append(zones, v.zone)
		}
	})
	return zones, known && len(zones) > 0
}

// eachVersion calls do with the versions of a zone of which one was in force at a time.
func (r *Rules) eachVersion(id int64, at time.Time, do func(*version)) {
	versions := r.zones[id]
	next, _ := slices.BinarySearchFunc(versions, at, func(v version, at time.Time) int {
		if v.from.After(at) {
			return 1
		}
		return -1
	})
	for i := next - 1; i >= 0 && (i == next-1 || at.Before(versions[i+1].from.Add(slack))); i-- {
		do(&versions[i])
	}
}

// longest returns for how long a txn of a bucket can count from a time on.
func (r *Rules) longest(bucket service.Bucket, at time.Time) (longest time.Duration) {
	r.eachVersion(bucket.ZoneID, at, func(v *version) { longest = max(longest, v.longest) })
	for _, e := range r.exceptionsOf(bucket) {
		longest = max(longest, e.longest)
	}
	return longest
}

// always says that all states of a zone that were in force at some time since an instant are of a kind, and are known.
func (r *Rules) always(id int64, since time.Time, is func(*service.Zone) bool) bool {
	isNot := func(z *service.Zone) bool { return !is(z) }
	if zones, known := r.zonesAt(id, since); !known || slices.ContainsFunc(zones, isNot) {
		return false
	}
	return !slices.ContainsFunc(r.zones[id], func(v version) bool {
		return v.from.After(since) && (!v.isKnown || v.zone == nil || !is(v.zone))
	})
}

// may says that a state of a zone that was, or may have been, in force at a time is of a kind, or is not known.
func (r *Rules) may(id int64, at time.Time, is func(*service.Zone) bool) bool {
	zones, known := r.zonesAt(id, at)
	return !known || slices.ContainsFunc(zones, is)
}

// overridesAt returns the overrides of a bucket that were in force for sure at a time, and those that may have been. An
// override that was changed shortly before is among the latter in both states.
func (r *Rules) overridesAt(bucket service.Bucket, at time.Time) (sure, maybe []*service.Override) {
	for _, e := range r.exceptionsOf(bucket) {
		for i, s := range e.states {
			isLast := i+1 == len(e.states)
			switch {
			case s.override == nil || !isOf(s.override, bucket):
			case at.Before(s.from) || !isLast && !at.Before(e.states[i+1].from.Add(slack)):
			case !e.isUnsure && (s.from.IsZero() || !at.Before(s.from.Add(slack))) && (isLast || at.Before(e.states[i+1].from)):
				sure = append(sure, s.override)
			default:
				maybe = append(maybe, s.override)
			}
		}
	}
	return sure, maybe
}

// isOf says that an override is one of a bucket: an edit may have given it another key.
func isOf(o *service.Override, bucket service.Bucket) bool {
	if o.Key != "" {
		return o.Key == bucket.Key
	}
	network, isAddress := service.NetworkOf(bucket.Key)
	return isAddress && o.Prefix.Bits() <= network.Bits() && o.Prefix.Contains(network.Addr())
}
