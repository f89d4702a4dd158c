package db

import (
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"velocityd/service"
)

// cache has the zones and buckets as this instance has seen them. A batch chooses by it the rows to
// read first. It never affects a decision: each batch checks under its locks that it has read
// enough, and reads again if it has not.
type cache struct {
	mu    sync.RWMutex
	zones map[int64]zonePlan

	seed maphash.Seed
	seen []atomic.Uint32 // of buckets that had a lock row
	// unseenAreNew says that most buckets that were not in seen had no lock row, in the last
	// batch that had such buckets.
	unseenAreNew atomic.Bool

	timeouts timeouts

	ahead atomic.Int64 // nanoseconds by which the engine's clock is ahead of this machine's
}

// seenPlaces is how many buckets a store remembers at most. Each has a group of seenGroup places
// in which it may stand.
const (
	seenPlaces = 1 << 18
	seenGroup  = 8
)

// newCache returns a cache that remembers so many buckets, a multiple of seenGroup.
func newCache(places int) *cache {
	return &cache{zones: map[int64]zonePlan{}, seed: maphash.MakeSeed(), seen: make([]atomic.Uint32, places)}
}

// plan returns the plan by which a zone's buckets were last read.
func (c *cache) plan(zoneID int64) zonePlan {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.zones[zoneID]
}

// sawQuota remembers that a zone has a period and a high rate. The rest is learned by the next batch.
func (c *cache) sawQuota(zoneID int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	plan := c.zones[zoneID]
	plan.isQuota = true
	c.zones[zoneID] = plan
}

// learn remembers plans.
func (c *cache) learn(plans map[int64]zonePlan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(c.zones, plans)
}

// now estimates the time of the engine's clock.
func (c *cache) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *cache) sawClock(now time.Time) { c.ahead.Store(int64(time.Until(now))) }

func (c *cache) sawRow(b service.Bucket) {
	tag, group := c.groupOf(b)
	for i := range group {
		switch group[i].Load() {
		case tag:
			return
		case 0:
			group[i].Store(tag)
			return
		}
	}
	group[tag%seenGroup].Store(tag) // the group is full: in place of another bucket
}

// hasSeenRow says that a bucket had a lock row when this instance last looked.
func (c *cache) hasSeenRow(b service.Bucket) bool {
	tag, group := c.groupOf(b)
	for i := range group {
		if group[i].Load() == tag {
			return true
		}
	}
	return false
}

// metUnseen remembers how many buckets of a batch were not in seen, and how many of these had
// a row.
func (c *cache) metUnseen(met, found int) {
	if met > 0 {
		c.unseenAreNew.Store(2*found < met)
	}
}

// groupOf returns the places in which a bucket can be remembered, and the tag by which it is
// known there. Two buckets with the same group and tag count as one, which costs time
// and no correctness.
func (c *cache) groupOf(b service.Bucket) (tag uint32, group []atomic.Uint32) {
	hash := maphash.Comparable(c.seed, b)
	first := hash >> 32 % uint64(len(c.seen)/seenGroup) * seenGroup
	return uint32(hash) | 1, c.seen[first : first+seenGroup]
}

// zonePlan says which rows are read of the buckets of one zone. Its zero value reads
// nothing.
type zonePlan struct {
	known bool // the zone existed
	keys  service.KeyRule
	// term is how long the txns count that are listed. 0 lists no txns; zones with a high rate have 0.
	term service.Term
	// isQuota says that the zone has a period and a high rate: see checkAlone.
	isQuota bool
	// overridden says that overrides of keys are read. networks says that overrides of
	// networks of these lengths are read too; it is for ip zones.
	overridden, networks bool
	lengths              []prefixLength
	// hasSeries says that series of blocked attempts are read.
	hasSeries bool
	// wholeRule says that more settings of the zone are read: zonerow.WholeRule. open is read by them.
	wholeRule bool
	open      openPlan
	// secrets is how long the txns count whose imprints are read. 0 reads none.
	secrets service.Term
}

// openPlan says which attempts under way are read of a bucket: the newest so many, as long as each is waited for.
// The zero value reads none.
type openPlan struct {
	most    int
	reserve time.Duration
}

// prefixLength is a row of zone_override_prefix_length.
type prefixLength struct {
	zoneID int64
	family int // 4 or 6
	bits   int
}
