// Package history owns the past that the benchmark makes up: which attempts there were, in which order and when. It
// writes their rows as text for LOAD DATA. Rows depend on the plan alone, so that each fill of a plan is the same. It
// must not know how rows get into a database.
package history

import (
	"math"
	"sort"
	"strconv"
	"time"

	"velocityd/bench/workload"
)

// Days is the length of every history, in calendar days of UTC. The last one ends with the plan.
const Days = 60

// The zones of a history.
const (
	ZoneUser    = 1
	ZoneAddress = 2
	ZoneDevice  = 3
)

// A history consists of blocks, which are alike in the kinds of their checks: pairs of user and address first, then
// lone ones of a device, then lone ones of the noisy address.
const (
	pairs       = 7
	devices     = 4
	noisy       = 2
	blockChecks = pairs + devices + noisy
	// BlockRows is the number of txns of a block.
	BlockRows = 2*pairs + devices + noisy
)

// NoisyAddress is the address with the most txns: a tenth of all. About one in ten of them, the first of each day, was
// let through and failed, and the others were blocked.
const NoisyAddress = "198.51.100.66"

// FloodAddress is the address of a flood.
const FloodAddress = "203.0.113.66"

// Plan says which history is made.
type Plan struct {
	Rows int // of zone_txn, a multiple of BlockRows
	Seed uint64
	End  time.Time // no txn is as late as this instant
	// Flood is how many lone checks of FloodAddress come last, one each microsecond before End, besides Rows.
	Flood int
}

// Begin returns the midnight at which the history begins. A history that ends at midnight has the whole day before as
// its last one.
func (p Plan) Begin() time.Time {
	return p.End.UTC().Add(-time.Nanosecond).Truncate(day).Add(-(Days - 1) * day)
}

const day = 24 * time.Hour

func (p Plan) blocks() int { return p.Rows / BlockRows }

// Users returns how many users there are: one for each fifty txns, and at least a thousand.
func (p Plan) Users() int { return max(p.Rows/50, 1000) }

// IsRefused says that the user with a number is one in fifty, all of whose attempts were blocked.
func IsRefused(user int) bool { return user%50 == 25 }

// LetThrough returns how many attempts of an address that guesses were let through on each day.
func (p Plan) LetThrough() int { return max(p.blocks()*noisy/Days/10, 1) }

// Addresses returns how many addresses there are, besides the noisy one.
func (p Plan) Addresses() int { return min(max(p.Rows/25, 1000), 1<<22) }

// Devices returns how many devices there are.
func (p Plan) Devices() int { return max(p.Rows/200, 1000) }

// User returns the key of the user with a number, as the load generator writes it.
func User(n int) string { return string(workload.AppendNumber([]byte("user-"), n)) }

// Address returns the key of an address in 100.64.0.0/10, whose hosts are 2^22.
func Address(n int) string {
	key := append(strconv.AppendInt([]byte("100."), int64(64+n>>16), 10), '.')
	key = append(strconv.AppendInt(key, int64(n>>8&0xff), 10), '.')
	return string(strconv.AppendInt(key, int64(n&0xff), 10))
}

// instant returns when a check of a block was made. Nights have a quarter of the attempts of the busiest hours: the
// sine moves instants inside of their day and keeps their order. A part of a day at the end has no nights.
func (p Plan) instant(block, check int) time.Time {
	d := p.dayOf(block)
	first, length := p.firstBlock(d), day
	done := (float64(block-first) + float64(check)/blockChecks) / float64(p.firstBlock(d+1)-first)
	from := p.Begin().Add(time.Duration(d) * day)
	if d < Days-1 {
		done -= 0.6 * math.Sin(2*math.Pi*done) / (2 * math.Pi)
	} else {
		length = p.End.Sub(from)
	}
	return from.Add(time.Duration(done * float64(length))).Truncate(time.Microsecond)
}

// dayOf returns the day of a block.
func (p Plan) dayOf(block int) int {
	d := int(float64(block) * p.days() / float64(p.blocks()))
	switch {
	case block < p.firstBlock(d): // by the rounding of a float
		return d - 1
	case block >= p.firstBlock(d+1):
		return d + 1
	}
	return d
}

// days returns the length of the history. It differs from Days, because the last day may be a part of one.
func (p Plan) days() float64 { return float64(p.End.Sub(p.Begin())) / float64(day) }

// firstBlock returns the first block of a day, counted from 0.
func (p Plan) firstBlock(day int) int {
	if day >= Days {
		return p.blocks()
	}
	return min(int(math.Ceil(float64(day)*float64(p.blocks())/p.days())), p.blocks())
}

// FirstID returns the id of the first txn of a day, counted from 0. Of Days it returns that of the flood.
func (p Plan) FirstID(day int) uint64 { return firstID(p.firstBlock(day), 0) }

// NextID returns the id that is free after the history and its flood.
func (p Plan) NextID() uint64 { return p.FirstID(Days) + uint64(p.Flood) }

// firstID returns the id of the first txn of a check.
func firstID(block, check int) uint64 {
	return uint64(block*BlockRows + check + min(check, pairs) + 1)
}

// UnreportedID returns the id of the n-th txn that was let through and has no outcome. n may be any
// number from 0: it is wrapped.
func (p Plan) UnreportedID(n int) uint64 {
	return firstID(n/devices%p.blocks(), pairs+n%devices)
}

// Mark is a row of zone_txn_mark: TxnID was the highest id at the instant At.
type Mark struct {
	TxnID uint64
	At    time.Time
}

// Marks returns a mark of each full hour, as the runner leaves them.
func (p Plan) Marks() []Mark {
	var marks []Mark
	for at := p.Begin().Add(time.Hour); !at.After(p.End); at = at.Add(time.Hour) {
		later := sort.Search(p.blocks()*blockChecks, func(n int) bool {
			return !p.instant(n/blockChecks, n%blockChecks).Before(at)
		})
		if later > 0 {
			marks = append(marks, Mark{TxnID: firstID(later/blockChecks, later%blockChecks) - 1, At: at})
		}
	}
	return marks
}
