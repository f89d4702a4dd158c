package db

import (
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"velocityd/service"
)

// hints are what this instance has seen of zones and buckets. They choose what a
// batch asks for first, and decide nothing: every batch proves under its locks
// that it knows enough, and asks again if it does not.
type hints struct {
	mu    sync.RWMutex
	zones map[int64]zonePlan

	seed maphash.Seed
	seen [seenPlaces]atomic.Uint32 // of buckets that had a lock row
	// unseenAreNew says that of the buckets which were not in seen most had no row
	// either, when a batch last met any.
	unseenAreNew atomic.Bool

	ahead atomic.Int64 // nanoseconds that the engine's clock was before this machine's
}

// seenPlaces is how many buckets are remembered at most, and seenGroup how many of
// them could stand in the place of a given one.
const (
	seenPlaces = 1 << 18
	seenGroup  = 8
)

func newHints() *hints {
	return &hints{zones: map[int64]zonePlan{}, seed: maphash.MakeSeed()}
}

// plan returns what has to be read of a zone's buckets as far as anybody knows.
func (h *hints) plan(zoneID int64) zonePlan {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.zones[zoneID]
}

// learn remembers what had to be read.
func (h *hints) learn(plans map[int64]zonePlan) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.Copy(h.zones, plans)
}

// now returns what the engine's clock shows, as far as anybody knows.
func (h *hints) now() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }

// sawClock remembers what the engine's clock shows.
func (h *hints) sawClock(now time.Time) { h.ahead.Store(int64(time.Until(now))) }

// sawRow remembers that a bucket has a lock row.
func (h *hints) sawRow(b service.Bucket) {
	tag, group := h.groupOf(b)
	for i := range group {
		switch group[i].Load() {
		case tag:
			return
		case 0:
			group[i].Store(tag)
			return
		}
	}
	group[tag%seenGroup].Store(tag) // in place of another one
}

// hasSeenRow says that a bucket had a lock row when this instance last looked.
func (h *hints) hasSeenRow(b service.Bucket) bool {
	tag, group := h.groupOf(b)
	for i := range group {
		if group[i].Load() == tag {
			return true
		}
	}
	return false
}

// metUnseen remembers that so many buckets were not in seen, and how many of them had
// a row.
func (h *hints) metUnseen(met, found int) {
	if met > 0 {
		h.unseenAreNew.Store(2*found < met)
	}
}

// groupOf returns the places in which a bucket can be remembered, and what stands
// for it there. Two buckets that have both in common are taken for one.
func (h *hints) groupOf(b service.Bucket) (tag uint32, group []atomic.Uint32) {
	hash := maphash.Comparable(h.seed, b)
	first := hash >> 32 % (seenPlaces / seenGroup) * seenGroup
	return uint32(hash) | 1, h.seen[first : first+seenGroup]
}

// zonePlan is what is read of the buckets of one zone. Its zero value reads
// nothing.
type zonePlan struct {
	known bool // the zone was there
	// window is how far back txns are listed; 0 lists none, which is for zones with a
	// high rate, too.
	window time.Duration
	// overridden reads the overrides of keys, and networks, which is for ip zones,
	// those of networks of these lengths.
	overridden, networks bool
	lengths              []prefixLength
}

// prefixLength is a row of zone_override_prefix_length.
type prefixLength struct {
	zoneID int64
	family int // 4 or 6
	bits   int
}
