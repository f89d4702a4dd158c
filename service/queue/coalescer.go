// Package queue stands between callers and a store of checks: the Coalescer gathers the checks of many
// callers into few calls, and its Circuit answers by the zones' rules while the store is away. It must
// not know how a check is decided or stored.
package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"velocityd/service"
)

// Defaults of CoalescerOptions.
const (
	DefaultLanes        = 4
	DefaultHeldCalls    = 8
	defaultMaxBatch     = 500
	DefaultQueue        = 16_384
	DefaultBatchTimeout = 5 * time.Second
)

// CoalescerOptions are the sizes of a Coalescer. Zero stands for the default.
type CoalescerOptions struct {
	// Lanes bounds the shared calls of lone checks that are under way at once. Beside a running call,
	// another begins when 28 checks wait, and as many as the running calls have on average.
	Lanes int
	// BulkLanes bounds the calls under way for parts of larger calls; the default is half of Lanes and at
	// least one.
	BulkLanes int
	// HeldCalls bounds the calls under way that wait for buckets which another session holds. The store
	// gets at most Lanes, BulkLanes and HeldCalls together, and the calls of ShardOf, at once; each call
	// needs a connection.
	HeldCalls int
	// MaxBatch bounds the checks of one call; it is at most MaxChecks.
	MaxBatch int
	// Queue bounds the callers that wait in one queue.
	Queue int
	// QueuePerBucket bounds the waiting callers that name the same bucket; the default is a sixteenth of
	// Queue. A further check of that bucket is refused as if the queue were full. Other checks still find
	// room, so a flood on one key does not shut out other keys. They also overtake it as soon as it has a
	// quarter of a batch, or 16 checks.
	QueuePerBucket int
	// Timeout bounds the time of a batch. A check does not begin if its caller's ctx ends before the batch
	// must end: the caller would get ErrUndecided for a check that the batch may still decide. So Timeout
	// must be shorter than the deadline of callers; the difference is the time that a check can wait in its
	// queue.
	Timeout time.Duration
	// ShardOf returns the place, from 0, of the shard of a bucket, and the number of shards. The Coalescer
	// asks it for each lone check, and its answer may change. Each shard has a separate queue and separate
	// calls, and checks over several shards have others, so no check waits behind a shard that does not
	// answer. A shard has Lanes divided by the number of shards as calls, at least one; checks over several
	// shards have Lanes. The default is one shard.
	ShardOf func(bucket service.Bucket) (shard, shards int)
	// IsStraight says that each call goes to the store as it is: nothing is gathered, cut or kept apart.
	IsStraight bool
	// Circuit says when the store is away.
	Circuit CircuitOptions
	// Observe hears of everything that the Coalescer does.
	Observe CoalescerObserver
}

// shardLanes is the number of lanes for shards. More shards than these share lanes.
const shardLanes = 64

func (o CoalescerOptions) withDefaults() CoalescerOptions {
	o.Lanes = cmp.Or(o.Lanes, DefaultLanes)
	o.BulkLanes = cmp.Or(o.BulkLanes, max(o.Lanes/2, 1))
	o.HeldCalls = cmp.Or(o.HeldCalls, DefaultHeldCalls)
	o.MaxBatch = min(cmp.Or(o.MaxBatch, defaultMaxBatch), service.MaxChecks)
	o.Queue = cmp.Or(o.Queue, DefaultQueue)
	o.QueuePerBucket = cmp.Or(o.QueuePerBucket, max(o.Queue/16, 1))
	o.Timeout = cmp.Or(o.Timeout, DefaultBatchTimeout)
	if o.ShardOf == nil {
		o.ShardOf = func(service.Bucket) (shard, shards int) { return 0, 1 }
	}
	return o
}

// Coalescer lets concurrent checks share one call of a store: one round trip,
// one pass over the locks, one commit. It is a CheckStore itself.
//
// A lone check goes to a lane, see CoalescerOptions.ShardOf. If no call is under way in the
// lane, the caller leads: it calls the store on its own goroutine. Callers that come during this
// call wait, until they are enough for another call or the call ends. Then its leader
// wakes the first of them, which calls the store for all that wait. There is no timer and no
// other goroutine, so a check that comes to an idle lane does not wait. A bucket is in one call
// of a lane at a time. That saves lock waits; the store decides right without it.
//
// These lanes ask the store not to wait for buckets that another session holds. A check
// that names a held bucket is asked a second time in its lane. If the bucket is still held,
// the check moves to the lane for held buckets, whose calls do wait, so that no other check
// waits with it: see fillHeld. Calls with more than one check have another lane: see bulk.
type Coalescer struct {
	// Circuit answers checks while the store is away.
	Circuit *Circuit

	store   service.CheckStore
	options CoalescerOptions
	// lanes are for lone checks: those of the shards, and the last for checks over several.
	lanes []*lane
	bulk  *bulk
	held  *lane

	seed    maphash.Seed
	waiters sync.Pool // of *waiter, for use again
	callers *callers
}

var _ service.CheckStore = (*Coalescer)(nil)

// NewCoalescer returns a Coalescer in front of store. All lanes may call the store at once.
// The store must honour Call.NoWait and must not keep the slice of checks after the call.
// If a call fails and may have decided checks, its error must wrap ErrUndecided: after an
// error that wraps neither ErrUndecided nor ErrBusy the Coalescer asks the checks again.
func NewCoalescer(store service.CheckStore, options CoalescerOptions) *Coalescer {
	options = options.withDefaults()
	c := &Coalescer{store: store, options: options, seed: maphash.MakeSeed(), callers: newCallers()}
	c.Circuit = newCircuit(options.Circuit, c.Silence, func() bool { return c.shards() > 1 })
	lone := laneOptions{
		calls: c.callsOfEach, gathers: true, size: options.MaxBatch, noWait: true,
		queue: options.Queue, perBucket: options.QueuePerBucket, timeout: options.Timeout,
		observe: options.Observe,
	}
	for range shardLanes {
		c.lanes = append(c.lanes, newLane(store, lone, c.callers.abandoned))
	}
	bulk, held := lone, lone
	lone.calls = always(options.Lanes)
	c.lanes = append(c.lanes, newLane(store, lone, c.callers.abandoned))
	bulk.calls, bulk.gathers, bulk.size, bulk.timeout = always(options.BulkLanes), false, pieceBuckets, options.Timeout/2
	c.bulk = newBulk(newLane(store, bulk, c.callers.abandoned))
	held.calls, held.gathers, held.noWait = always(options.HeldCalls), false, false
	c.held = newLane(store, held, c.callers.abandoned)
	return c
}

// CheckAll implements CheckStore. Checks must be valid as Check.Validate says,
// and their buckets must not be changed afterwards, even if the call failed.
//
// A lone check shares its call of the store with others. That call has its own deadline and
// the values (such as a trace) of one caller's ctx, and is NOT ended by the end of any ctx.
// When a caller's ctx ends, or at the deadline of its call, the caller gets ErrBusy if its check was
// still queued; the check will not be decided then. It gets ErrUndecided if the check is under way, unless the
// caller leads the call: a leader stays until the end and gets the answer. When the store is found
// away, the callers whose checks have an answer without it leave the queue and get that: see Circuit.
// A caller gets a *BusyError if the queue or its bucket's share of the queue is full, if it
// gives up before a batch that begins now must end, or if its bucket is held for long. If one
// check makes the shared call fail, only that check gets the error.
//
// A call with more checks is cut into pieces, which are asked one after the other. The error
// result means that nothing of the call was decided. If a later piece fails, its error is in
// the Decision.Err of its checks, and the checks after it are refused with ErrBusy or, if a
// key was stale, ErrStaleKey. Checks are decided in slice order, except that checks of held
// buckets are decided after the others of their piece.
//
// Each check of a call is answered by itself while the store is away. An AttemptID of a check that is answered
// without the store is not remembered.
func (c *Coalescer) CheckAll(ctx context.Context, call service.Call) (decisions []service.Decision, err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: caller left before the check began: %w", service.ErrBusy, err)
	}
	if !c.callers.enter() {
		return nil, shuttingDown()
	}
	defer c.callers.leave()
	q := c.Circuit.begin(call)
	switch {
	case len(q.asked) == 0:
	case c.options.IsStraight:
		decisions, err = c.askStraight(ctx, &q)
	case len(q.asked) == 1:
		decisions, err = c.askLone(ctx, &q)
	default:
		decisions, err = c.askMany(ctx, &q)
	}
	return q.end(decisions, err)
}

func shuttingDown() error { return fmt.Errorf("%w: shutting down", service.ErrBusy) }

// A check has loneTries in its lane before it goes to the lane for held buckets. Buckets that another
// instance's batch held are often free at the second try. For buckets that a sleeping session holds, the
// second try costs one call.
const loneTries = 2

// askStraight asks the store for all checks of a circuitCall by one call.
func (c *Coalescer) askStraight(ctx context.Context, q *circuitCall) ([]service.Decision, error) {
	call := q.call.Of(q.asked)
	call.Patience = q.patience
	began := time.Now()
	decisions, err := call.Fit(c.store.CheckAll(ctx, call))
	if observe := c.options.Observe.Asked; observe != nil {
		observe(Asked{callers: oneCaller(ctx), Began: began, Checks: len(q.asked), Decisions: decisions, Err: err})
	}
	return decisions, err
}

// askLone asks for the one check of a circuitCall.
func (c *Coalescer) askLone(ctx context.Context, q *circuitCall) (decisions []service.Decision, err error) {
	w := c.newWaiter(ctx, q, q.asked, 1)
	c.hash(w)
	lane, free := c.laneOf(q.asked[0]), true
	for range loneTries {
		decisions, free, err = lane.wait(w)
		if !isHeld(decisions) || errors.Is(decisions[0].Err, service.ErrStuck) {
			break
		}
	}
	if isHeld(decisions) {
		decisions, free, err = c.held.wait(w)
	}
	if free {
		c.release(w)
	}
	if err == nil && errors.Is(decisions[0].Err, service.ErrBusy) {
		return nil, decisions[0].Err
	}
	return decisions, err
}

func isHeld(decisions []service.Decision) bool {
	return len(decisions) == 1 && errors.Is(decisions[0].Err, service.ErrHeld)
}

// newWaiter returns the waiter of a caller with some checks of its circuitCall. The weight of its checks counts against
// the size of a call.
func (c *Coalescer) newWaiter(ctx context.Context, q *circuitCall, checks []service.Check, weight int) *waiter {
	w, ok := c.waiters.Get().(*waiter)
	if !ok {
		w = newWaiter()
	}
	w.ctx, w.checks, w.weight = ctx, checks, weight
	w.away, w.patience = q.away, q.patience
	w.givesUp(q.call.Deadline)
	return w
}

// hash gives w the hashes of its buckets, by which lanes know them.
func (c *Coalescer) hash(w *waiter) {
	for _, check := range w.checks {
		for _, b := range check.Buckets {
			w.hashes = append(w.hashes, maphash.Comparable(c.seed, b))
		}
	}
}

// release keeps a waiter that no lane holds for a later caller.
func (c *Coalescer) release(w *waiter) {
	w.timer.Stop()
	*w = waiter{done: w.done, timer: w.timer, hashes: w.hashes[:0]}
	c.waiters.Put(w)
}

// laneOf returns the lane of the shard that all buckets of a check lie on, or that for checks
// over several shards.
func (c *Coalescer) laneOf(check service.Check) *lane {
	shard, _ := c.options.ShardOf(check.Buckets[0])
	for _, b := range check.Buckets[1:] {
		if other, _ := c.options.ShardOf(b); other != shard {
			return c.lanes[shardLanes]
		}
	}
	return c.lanes[shard%shardLanes]
}

// shards returns the number of shards.
func (c *Coalescer) shards() int {
	_, shards := c.options.ShardOf(service.Bucket{})
	return max(shards, 1)
}

// callsOfEach returns the bound of calls under way for each shard.
func (c *Coalescer) callsOfEach() int { return max(c.options.Lanes/c.shards(), 1) }

// mostCalls returns the bound of calls under way for lone checks.
func (c *Coalescer) mostCalls() int {
	shards := c.shards()
	if shards == 1 {
		return c.options.Lanes
	}
	return min(shards, shardLanes)*c.callsOfEach() + c.options.Lanes
}

func always(n int) func() int { return func() int { return n } }

// NoteResponse notes that the store has said something in the midst of a call, such as a lock wait that timed out.
// It ends the silence.
func (c *Coalescer) NoteResponse() { c.held.noteResponse() }

// Silence returns the time since the store last answered a call, while calls are under way that do not wait
// for held buckets. It is 0 while there are none. A call that found the store away, or whose answer was
// lost, is not answered.
func (c *Coalescer) Silence() time.Duration {
	var asked, heard time.Time
	for _, l := range slices.Concat(c.lanes, []*lane{c.bulk.pieces, c.held}) {
		l.mu.Lock()
		if l.heard.After(heard) {
			heard = l.heard
		}
		if l.options.noWait && l.calls > 0 && (asked.IsZero() || l.asked.Before(asked)) {
			asked = l.asked
		}
		l.mu.Unlock()
	}
	switch {
	case asked.IsZero():
		return 0
	case heard.After(asked):
		return time.Since(heard)
	}
	return time.Since(asked)
}

// Close refuses further calls with ErrBusy and returns when all earlier calls are answered.
// If ctx ends before that, Close returns its error, and the callers that still wait are
// answered at once: with ErrUndecided if their check is under way, otherwise with ErrBusy.
// Calls of the store that are under way go on until their deadlines, and so do their leaders.
func (c *Coalescer) Close(ctx context.Context) error {
	c.callers.close()
	select {
	case <-c.callers.gone:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-c.callers.gone: // both have happened: the callers were in time
		return nil
	default:
	}
	for _, l := range slices.Concat(c.lanes, []*lane{c.bulk.pieces, c.held}) {
		l.refuseQueued()
	}
	c.callers.abandon()
	return fmt.Errorf("wait for checks under way: %w", ctx.Err())
}
