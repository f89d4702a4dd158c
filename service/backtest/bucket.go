package backtest

import (
	"math"
	"math/bits"
	"slices"
	"sort"
	"time"

	"velocityd/service"
)

// fewEntries is up to how many entries of a bucket are counted one by one. A bucket with more has cursors.
const fewEntries = 48

// bucket is the state of one bucket under all plans. An attempt takes one entry for any number of plans.
type bucket struct {
	entries []entry
	cursors []cursor // of each lane; nil while there are few entries
	locks   []lock   // of each plan; nil while none has locked the bucket
	bursts  []burst  // of each demand; nil in zones that are not tested
}

// entry is one attempt. Instants are microseconds since 1970.
type entry struct {
	at int64
	// lanes has a bit for each plan under which the attempt takes a place, and for each demand that counts it.
	lanes uint64
}

// cursor counts the entries of one lane. It goes forward with time.
type cursor struct {
	since int64 // those at it and before it are not counted
	head  int   // the entries before it are not counted, too
	count int
}

// lock is a service.Lockout.
type lock struct {
	until, length int64 // microseconds
	isShadow      bool
}

// burst is a run of attempts without a pause as long as the window.
type burst struct {
	most      uint32 // attempts in any window of it
	succeeded bool
}

// tally returns how many entries of a lane are later than since, and the oldest of them.
func (b *bucket) tally(lane int, since int64) (count int, oldest int64) {
	if b.cursors != nil {
		return b.follow(lane, since)
	}
	bit := uint64(1) << lane
	for i := len(b.entries) - 1; i >= 0 && b.entries[i].at > since; i-- {
		if b.entries[i].lanes&bit != 0 {
			count, oldest = count+1, b.entries[i].at
		}
	}
	return count, oldest
}

// follow is tally by a cursor.
func (b *bucket) follow(lane int, since int64) (count int, oldest int64) {
	c, bit := &b.cursors[lane], uint64(1)<<lane
	if since < c.since { // a longer window, or a new cursor
		c.head, c.count = b.after(since), 0
		for _, e := range b.entries[c.head:] {
			c.count += int(e.lanes >> lane & 1)
		}
	}
	c.since = since
	for ; c.head < len(b.entries); c.head++ {
		e := b.entries[c.head]
		switch {
		case e.lanes&bit == 0:
		case e.at <= since:
			c.count--
		default:
			return c.count, e.at
		}
	}
	return c.count, 0
}

// after returns the place of the first entry later than an instant.
func (b *bucket) after(at int64) int {
	return sort.Search(len(b.entries), func(i int) bool { return b.entries[i].at > at })
}

// add adds an attempt. lanes is the number of all lanes, and those at horizon and before it count nowhere any more.
func (b *bucket) add(e entry, lanes int, horizon int64) {
	if len(b.entries) == cap(b.entries) && len(b.entries) > 0 {
		b.compact(horizon)
	}
	b.entries = append(b.entries, e)
	if n := len(b.entries); n > 1 && b.entries[n-2].at > e.at { // the clock stepped back
		slices.SortStableFunc(b.entries, func(x, y entry) int { return int(x.at - y.at) })
		b.cursors = nil
	}
	switch {
	case b.cursors != nil:
		for rest := e.lanes; rest != 0; rest &= rest - 1 {
			b.cursors[bits.TrailingZeros64(rest)].count++
		}
	case len(b.entries) > fewEntries:
		b.cursors = make([]cursor, lanes)
		for i := range b.cursors {
			b.cursors[i].since = math.MaxInt64
		}
	}
}

// compact makes room by the entries that count nowhere any more, if they are half of all.
func (b *bucket) compact(horizon int64) {
	if gone := b.after(horizon); gone*2 >= len(b.entries) {
		b.entries = append(b.entries[:0], b.entries[gone:]...)
		b.cursors = nil
	}
}

// giveBack lets an attempt of an instant no longer count in some lanes. Attempts of one instant are the same to each
// lane.
func (b *bucket) giveBack(at int64, lanes uint64) {
	for i := b.after(at - 1); i < len(b.entries) && b.entries[i].at == at && lanes != 0; i++ {
		found := b.entries[i].lanes & lanes
		lanes &^= found
		b.clear(i, found)
	}
}

// clear lets one entry no longer count in some lanes.
func (b *bucket) clear(i int, lanes uint64) {
	lanes &= b.entries[i].lanes
	b.entries[i].lanes &^= lanes
	if b.cursors == nil {
		return
	}
	for ; lanes != 0; lanes &= lanes - 1 {
		if c := &b.cursors[bits.TrailingZeros64(lanes)]; i >= c.head && c.since != math.MaxInt64 {
			c.count--
		}
	}
}

// empty lets all entries later than an instant no longer count in a lane.
func (b *bucket) empty(lane int, since int64) {
	for i := b.after(since); i < len(b.entries); i++ {
		b.clear(i, 1<<lane)
	}
}

// lockout returns the last lockout under a plan.
func (b *bucket) lockout(plan int) service.Lockout {
	if b.locks == nil || b.locks[plan].length == 0 {
		return service.Lockout{}
	}
	l := b.locks[plan]
	return service.Lockout{
		Until: instantOf(l.until), Length: time.Duration(l.length) * time.Microsecond,
		Shadow: l.isShadow,
	}
}

// lockOut notes a lockout that begins under one of some plans.
func (b *bucket) lockOut(plan, plans int, l service.Lockout) {
	if b.locks == nil {
		b.locks = make([]lock, plans)
	}
	b.locks[plan] = lock{l.Until.UnixMicro(), l.Length.Microseconds(), l.Shadow}
}

// isOver says that nothing of the bucket can count any more: its attempts are not later than horizon, and its lockouts
// ended at lockHorizon or before it.
func (b *bucket) isOver(horizon, lockHorizon int64) bool {
	if n := len(b.entries); n > 0 && b.entries[n-1].at > horizon {
		return false
	}
	return !slices.ContainsFunc(b.locks, func(l lock) bool { return l.until > lockHorizon })
}

func instantOf(micro int64) time.Time { return time.UnixMicro(micro).UTC() }
