package zonereport

import (
	"cmp"
	"slices"
	"time"

	"velocityd/service"
)

// pairing ties the users and the addresses of checks together.
type pairing struct {
	query Query
	keys  [2]names // of users and of addresses
	// open and former are checks of which txns were seen. The txns of one check are near each other, so former checks are
	// forgotten when there are many newer ones.
	open, former map[service.CheckKey]*pair
	pairs        []pair
}

// Which key of a pair.
const (
	pairUser = iota
	pairAddress
)

// checksKept is how many checks a generation of checks has whose other txn may still come.
const checksKept = 1 << 16

// pair is one attempt by a user from an address, or several that one txn counts. Its keys are numbers of names, and 0
// while they are not known.
type pair struct {
	at, last int64  // microseconds since 1970
	id       uint64 // of the user's txn
	keys     [2]uint32
	attempts uint32
	blocked  bool
	success  bool
}

// names numbers different keys from 1.
type names struct {
	list    []string
	numbers map[string]uint32
}

func (n *names) number(key string) uint32 {
	number, ok := n.numbers[key]
	if !ok {
		n.list = append(n.list, key)
		number = uint32(len(n.list))
		n.numbers[key] = number
	}
	return number
}

func newPairing(query Query) pairing {
	return pairing{
		query: query, open: map[service.CheckKey]*pair{},
		keys: [2]names{{numbers: map[string]uint32{}}, {numbers: map[string]uint32{}}},
	}
}

// add notes a txn. Of several txns of one check in one zone the first counts, so an attempt counts once while two
// secret keys of pseudonyms are in place.
func (p *pairing) add(txn service.Txn) {
	place := -1
	switch {
	case txn.CheckID == 0:
	case txn.Bucket.ZoneID == p.query.UsersZone:
		place = pairUser
	case txn.Bucket.ZoneID == p.query.AddressesZone:
		place = pairAddress
	}
	if place < 0 {
		return
	}
	found := p.find(txn.Check())
	if found.keys[place] != 0 {
		return
	}
	found.keys[place] = p.keys[place].number(txn.Bucket.Key)
	found.attempts, found.last = max(found.attempts, uint32(txn.Attempts)), max(found.last, txn.LastAt.UnixMicro())
	found.blocked, found.success = txn.Blocked, txn.Outcome == service.OutcomeSuccess
	if place == pairUser {
		found.id = txn.ID
	}
	if found.keys[1-place] != 0 {
		p.pairs = append(p.pairs, *found)
	}
}

// find returns the pair of a check.
func (p *pairing) find(check service.CheckKey) *pair {
	if found := p.open[check]; found != nil {
		return found
	}
	if found := p.former[check]; found != nil {
		return found
	}
	if len(p.open) == checksKept {
		p.open, p.former = map[service.CheckKey]*pair{}, p.open
	}
	found := &pair{at: check.At}
	p.open[check] = found
	return found
}

// numbers returns all attempts of a key in one of the times that were read without a gap, by its index.
type numbers func(place int, key uint32, stretch int) service.Totals

// conclude adds the bursts, the series and the accounts that were entered to a report of which Read is set.
func (p *pairing) conclude(report *Report, all numbers) {
	f := findings{pairing: p, read: report.Read, all: all, entered: map[[2]uint32]Entry{}, isBurst: map[burstKey]bool{}}
	report.Sprays = f.burstsOf(pairAddress, CauseSpray, p.query.Spray)
	report.Targets = f.burstsOf(pairUser, CauseSources, p.query.Sources)
	f.readSeries() // the pairs are in the order of users
	report.Guesses, report.Devices = f.classify()
	most := report.Keys
	for _, entry := range f.entered {
		report.Entered = append(report.Entered, entry)
	}
	report.Entered = topOf(most, report.Entered,
		func(x, y Entry) int { return cmp.Or(y.At.Compare(x.At.Time), cmp.Compare(x.TxnID, y.TxnID)) })
	report.Sprays, report.Targets = topOf(most, report.Sprays, compareBursts), topOf(most, report.Targets, compareBursts)
	report.Guesses, report.Devices = topOf(most, report.Guesses, compareSeries),
		topOf(most, report.Devices, compareSeries)
}

// findings is what the pairs of a report show.
type findings struct {
	*pairing
	read    []Part
	all     numbers
	entered map[[2]uint32]Entry // by the keys of the pair
	isBurst map[burstKey]bool
	series  []series
}

// burstKey is a key of a burst: its place in pairs, and its number.
type burstKey struct {
	place int
	key   uint32
}

// name returns a key by its number.
func (p *pairing) name(place int, key uint32) string { return p.keys[place].list[key-1] }

// groups yields the pairs of each key, in the order of time.
func (p *pairing) groups(place int, yield func([]pair)) {
	slices.SortFunc(p.pairs, func(x, y pair) int {
		return cmp.Or(cmp.Compare(x.keys[place], y.keys[place]), cmp.Compare(x.at, y.at),
			cmp.Compare(x.keys[1-place], y.keys[1-place]))
	})
	for begin := 0; begin < len(p.pairs); {
		end := begin
		for end < len(p.pairs) && p.pairs[end].keys[place] == p.pairs[begin].keys[place] {
			end++
		}
		yield(p.pairs[begin:end])
		begin = end
	}
}

// stretches cuts pairs, which are in the order of time, where the read time has a gap, and yields the index of the time
// with each part of them.
func (f *findings) stretches(pairs []pair, yield func(stretch int, pairs []pair)) {
	for len(pairs) > 0 {
		stretch := indexOf(f.read, instantOf(pairs[0].at))
		end, _ := slices.BinarySearchFunc(pairs, f.read[stretch].Until.UnixMicro(),
			func(one pair, until int64) int { return cmp.Compare(one.at, until) })
		yield(stretch, pairs[:end])
		pairs = pairs[end:]
	}
}

func (f *findings) burstsOf(place int, cause Cause, enough Threshold) (bursts []Burst) {
	f.groups(place, func(all []pair) {
		if len(all) < enough.Least {
			return
		}
		known, best := map[uint32]bool{}, Burst{}
		f.stretches(all, func(stretch int, pairs []pair) {
			burst, ok := f.burst(stretch, pairs, place, enough)
			if ok {
				f.enter(pairs, place, cause, burst, known)
				if best.Key == "" || compareBursts(burst, best) < 0 {
					best = burst
				}
			}
			for _, one := range pairs {
				known[one.keys[1-place]] = known[one.keys[1-place]] || one.success
			}
		})
		if best.Key != "" {
			best.LastAt = service.At(instantOf(all[len(all)-1].last))
			f.isBurst[burstKey{place, all[0].keys[place]}] = true
			bursts = append(bursts, best)
		}
	})
	return bursts
}

// burst returns the burst of one key's pairs, which are in the order of time.
func (f *findings) burst(stretch int, pairs []pair, place int, enough Threshold) (b Burst, ok bool) {
	found := mostOthers(pairs, place, enough)
	if found.others < enough.Least {
		return b, false
	}
	all := f.all(place, pairs[0].keys[place], stretch)
	b = Burst{
		Key: f.name(place, pairs[0].keys[place]), Others: found.others, BeginsAt: service.At(instantOf(found.since)),
		MostSince: service.At(instantOf(pairs[found.first].at)),
		MostUntil: service.At(instantOf(pairs[found.last].at + 1)),
		Attempts:  all.Attempts, Blocked: all.Blocked,
	}
	tried, succeeded := map[uint32]bool{}, map[uint32]bool{}
	for i, one := range pairs {
		other := one.keys[1-place]
		if i >= found.first && i <= found.last && !one.success && !tried[other] && len(b.Tried) < maxNamed {
			tried[other] = true
			b.Tried = append(b.Tried, f.name(1-place, other))
		}
		if one.success && one.at >= found.since && !succeeded[other] {
			succeeded[other] = true
			if len(b.Succeeded) < maxNamed {
				b.Succeeded = append(b.Succeeded, f.name(1-place, other))
			}
		}
	}
	b.Successes = len(succeeded)
	return b, true
}

// most is the interval of a burst with the highest number of others, by the indexes of its first and its last pair, and
// the begin of the first interval that has enough of them.
type most struct {
	since               int64
	others, first, last int
}

// mostOthers finds that interval. A success is not counted.
func mostOthers(pairs []pair, place int, enough Threshold) (m most) {
	inside := map[uint32]int{}
	begin := 0
	for i, one := range pairs {
		for ; pairs[begin].at <= one.at-enough.Within.Microseconds(); begin++ {
			if past := pairs[begin]; !past.success {
				if inside[past.keys[1-place]]--; inside[past.keys[1-place]] == 0 {
					delete(inside, past.keys[1-place])
				}
			}
		}
		if one.success {
			continue
		}
		for pairs[begin].success {
			begin++
		}
		inside[one.keys[1-place]]++
		if len(inside) == enough.Least && m.others < enough.Least {
			m.since = pairs[begin].at
		}
		if len(inside) > m.others {
			m.others, m.first, m.last = len(inside), begin, i
		}
	}
	return m
}

func instantOf(micro int64) time.Time { return time.UnixMicro(micro).UTC() }

func compareBursts(x, y Burst) int {
	return cmp.Or(-cmp.Compare(x.Successes, y.Successes), -cmp.Compare(x.Others, y.Others), cmp.Compare(x.Key, y.Key))
}
