package service

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of CoalescerOptions.
const (
	DefaultLanes        = 4
	DefaultMaxBatch     = 500
	DefaultQueue        = 4096
	DefaultBatchTimeout = 5 * time.Second
)

// CoalescerOptions are the sizes of a Coalescer. Zero stands for the default.
type CoalescerOptions struct {
	// Lanes is how many calls of the store may be under way at once, apart from
	// calls of more than one check. Each needs a connection of its own.
	Lanes int
	// MaxBatch is how many checks may share a call, at most MaxChecks.
	MaxBatch int
	// Queue is how many checks may wait in one lane, besides those under way.
	Queue int
	// QueuePerBucket is how many of those may name one and the same bucket; the
	// default is a quarter of Queue. A further check of that bucket is refused
	// as if the queue were full, whatever other buckets it names, while checks
	// without it still find room: a flood on one key does not shut out the keys
	// that share its lane. Nor does it hold them up: while checks without it wait,
	// they overtake it as soon as it has a quarter of a batch, or 16 checks.
	QueuePerBucket int
	// Timeout is the deadline of a batch, from its beginning. No check is begun
	// whose caller's ctx ends before that: he would leave with ErrUndecided what
	// the batch may still decide. So it must be below the deadline of callers,
	// and what is between the two is how long a check can wait in its queue.
	Timeout time.Duration
}

func (o CoalescerOptions) withDefaults() CoalescerOptions {
	queue := orDefault(o.Queue, DefaultQueue)
	return CoalescerOptions{
		Lanes:          orDefault(o.Lanes, DefaultLanes),
		MaxBatch:       min(orDefault(o.MaxBatch, DefaultMaxBatch), MaxChecks),
		Queue:          queue,
		QueuePerBucket: orDefault(o.QueuePerBucket, max(queue/4, 1)),
		Timeout:        orDefault(o.Timeout, DefaultBatchTimeout),
	}
}

// BusyError is an ErrBusy that knows when there will be room.
type BusyError struct {
	// RetryAfter is a whole number of seconds, at least BusyRetryAfter.
	RetryAfter time.Duration
	reason     string
}

// Error implements error. The text names no bucket.
func (e *BusyError) Error() string {
	return fmt.Sprintf("%v: %s, retry in %v", ErrBusy, cmp.Or(e.reason, "queue is full"), e.RetryAfter)
}

// Unwrap returns ErrBusy.
func (e *BusyError) Unwrap() error { return ErrBusy }

// Coalescer lets concurrent checks share one call of a store: one round trip,
// one pass over the locks, one commit. It is a CheckStore itself.
//
// A check goes to a lane. A lane calls the store with one check and whatever is
// waiting behind it at that moment; while the call is under way others queue up
// for the next. There is no timer: a lone check waits for nobody. Checks of one
// bucket meet in one lane, as far as route can tell, because two lanes would
// wait for each other's lock on it. They would still decide right: that is the
// store's work, and nothing here knows what a decision is.
type Coalescer struct {
	store CheckStore
	lanes []*lane

	// pending counts, by hash, the checks of each bucket that are in some lane.
	seed    maphash.Seed
	pending []atomic.Int32

	spare     sync.Pool // of *waiter
	closed    atomic.Bool
	abandoned chan struct{} // closed when nobody shall wait any more
	abandon   sync.Once
}

var _ CheckStore = (*Coalescer)(nil)

// pendingPlaces is large against the checks that can be in the lanes at once.
// Buckets that share a place may cost a lock wait between lanes, no more.
const pendingPlaces = 1 << 14

// NewCoalescer returns a Coalescer in front of store and starts its lanes, which
// end with Close. The store may be called by all lanes at once and must not keep
// the slice of checks beyond the call. Where a call fails and may have decided
// all the same, it must say ErrUndecided: after other faults than that and
// ErrBusy the checks are asked again.
func NewCoalescer(store CheckStore, options CoalescerOptions) *Coalescer {
	options = options.withDefaults()
	c := &Coalescer{
		store: store, lanes: make([]*lane, options.Lanes),
		seed: maphash.MakeSeed(), pending: make([]atomic.Int32, pendingPlaces),
		abandoned: make(chan struct{}),
	}
	for i := range c.lanes {
		c.lanes[i] = newLane(store, options)
		go c.lanes[i].run()
	}
	return c
}

// CheckAll implements CheckStore. Checks must be valid as Check.Validate says,
// and their buckets must not be changed afterwards, even if the call failed.
//
// A lone check shares its call of the store with others. That call has a
// deadline of its own and the values, such as a trace, of one caller's ctx; it
// is NOT ended by any ctx. A caller whose ctx ends meanwhile gets ErrBusy if his
// check was still queued, which then will not be decided, and ErrUndecided if it
// is under way. A *BusyError is what he gets if the queue, or his bucket's share
// of it, is full, or if his ctx has a deadline before that of a batch which took
// his check now. An error of the whole shared call that speaks of a single check
// reaches that check alone.
//
// A call with more checks is a batch already and goes straight to the store,
// under its own ctx: split over lanes it would lose the slice's order, and its
// one error could not say which half was decided; in one lane it would keep all
// others waiting for a caller who does not hurry.
func (c *Coalescer) CheckAll(ctx context.Context, checks []Check) ([]Decision, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: caller left before the check began: %w", ErrBusy, err)
	}
	if c.closed.Load() {
		return nil, shuttingDown()
	}
	if len(checks) != 1 {
		return c.store.CheckAll(ctx, checks)
	}
	w, ok := c.spare.Get().(*waiter)
	if !ok {
		w = &waiter{done: make(chan struct{}, 1)}
	}
	w.ctx, w.check = ctx, checks[0]
	decisions, free, err := c.route(w).wait(w, c.abandoned)
	c.unroute(w)
	if free {
		*w = waiter{done: w.done, hashes: w.hashes[:0]}
		c.spare.Put(w)
	}
	return decisions, err
}

func shuttingDown() error { return fmt.Errorf("%w: shutting down", ErrBusy) }

// route chooses the lane by a bucket of the check: the one that most checks in
// the lanes have in common with it or, if there is none, the first in order of
// zone and key. So checks of one bucket always share a lane, and so do checks of
// many users from one address while that address is hot.
func (c *Coalescer) route(w *waiter) *lane {
	var (
		chosen Bucket
		hash   uint64
		most   int32 = -1
	)
	for _, b := range w.check.Buckets {
		h := maphash.Comparable(c.seed, b)
		w.hashes = append(w.hashes, h)
		others := c.pending[h%pendingPlaces].Add(1) - 1
		if others > most || others == most && b.before(chosen) {
			chosen, hash, most = b, h, others
		}
	}
	return c.lanes[hash/pendingPlaces%uint64(len(c.lanes))]
}

// unroute takes back what route has counted.
func (c *Coalescer) unroute(w *waiter) {
	for _, h := range w.hashes {
		c.pending[h%pendingPlaces].Add(-1)
	}
}

// before is the order in which stores lock buckets.
func (b Bucket) before(other Bucket) bool {
	return cmp.Or(cmp.Compare(b.ZoneID, other.ZoneID), cmp.Compare(b.Key, other.Key)) < 0
}

// Close refuses further checks with ErrBusy and returns when all that were
// queued are decided. If ctx ends before that, its error is returned and whoever
// still waits is answered at once, with ErrBusy or, if his check is under way,
// ErrUndecided; the calls under way go on to their deadlines. Close does NOT
// wait for calls with more than one check.
func (c *Coalescer) Close(ctx context.Context) error {
	c.closed.Store(true)
	for _, lane := range c.lanes {
		lane.close()
	}
	for _, lane := range c.lanes {
		if err := lane.awaitEnd(ctx); err != nil {
			for _, lane := range c.lanes {
				lane.refuseQueued()
			}
			c.abandon.Do(func() { close(c.abandoned) })
			return fmt.Errorf("wait for checks under way: %w", err)
		}
	}
	return nil
}

// CoalescerStats is what a Coalescer has done since it was made, and the queues
// as they are now. Calls with more than one check are in none of it.
type CoalescerStats struct {
	Batches uint64 // begun; the calls that asked parts of them again not included
	Checks  uint64 // in those batches
	Refused uint64 // because a queue, or a bucket's share of it, was full
	Late    uint64 // refused because too little of their callers' time was left
	Queued  []int  // checks that wait, by lane
}

// Stats returns the figures of all lanes, read one after the other.
func (c *Coalescer) Stats() CoalescerStats {
	stats := CoalescerStats{Queued: make([]int, len(c.lanes))}
	for i, lane := range c.lanes {
		lane.addTo(&stats, i)
	}
	return stats
}
