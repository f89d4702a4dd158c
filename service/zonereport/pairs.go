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

// pair is one attempt by a user from an address. Its keys are numbers of names, and 0 while they are not known.
type pair struct {
	at       int64 // microseconds since 1970
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
	found.attempts = max(found.attempts, uint32(txn.Attempts))
	found.blocked, found.success = txn.Blocked, txn.Outcome == service.OutcomeSuccess
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

// bursts returns the addresses that tried many users, and the users that were tried from many addresses.
func (p *pairing) bursts() (sprays, targets []Burst) {
	return p.burstsOf(pairAddress, p.query.Spray), p.burstsOf(pairUser, p.query.Sources)
}

func (p *pairing) burstsOf(place int, enough Threshold) (bursts []Burst) {
	slices.SortFunc(p.pairs, func(x, y pair) int {
		return cmp.Or(cmp.Compare(x.keys[place], y.keys[place]), cmp.Compare(x.at, y.at),
			cmp.Compare(x.keys[1-place], y.keys[1-place]))
	})
	for begin := 0; begin < len(p.pairs); {
		end := begin
		for end < len(p.pairs) && p.pairs[end].keys[place] == p.pairs[begin].keys[place] {
			end++
		}
		if burst, ok := p.burst(p.pairs[begin:end], place, enough); ok {
			bursts = append(bursts, burst)
		}
		begin = end
	}
	return bursts
}

// burst returns the burst of one key's pairs, which are in the order of time.
func (p *pairing) burst(pairs []pair, place int, enough Threshold) (b Burst, ok bool) {
	if len(pairs) < enough.Least {
		return b, false
	}
	since, others := mostOthers(pairs, place, enough)
	if others < enough.Least {
		return b, false
	}
	b = Burst{
		Key: p.keys[place].list[pairs[0].keys[place]-1], Others: others,
		BeginsAt: service.At(instantOf(since)), LastAt: service.At(instantOf(pairs[len(pairs)-1].at)),
	}
	succeeded := map[uint32]bool{}
	for _, one := range pairs {
		b.Attempts += int64(one.attempts)
		if one.blocked {
			b.Blocked += int64(one.attempts)
		}
		if other := one.keys[1-place]; one.success && one.at >= since && !succeeded[other] {
			succeeded[other] = true
			if len(b.Succeeded) < maxNamed {
				b.Succeeded = append(b.Succeeded, p.keys[1-place].list[other-1])
			}
		}
	}
	b.Successes = len(succeeded)
	return b, true
}

// mostOthers returns the highest number of different others in any interval, and the begin of the first interval that
// has enough of them. A success is not counted.
func mostOthers(pairs []pair, place int, enough Threshold) (since int64, most int) {
	inside := map[uint32]int{}
	begin := 0
	for _, one := range pairs {
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
		inside[one.keys[1-place]]++
		if len(inside) == enough.Least && most < enough.Least {
			since = pairs[begin].at
		}
		most = max(most, len(inside))
	}
	return since, most
}

func instantOf(micro int64) time.Time { return time.UnixMicro(micro).UTC() }
