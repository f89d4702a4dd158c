package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"velocityd/service"
)

// laneOptions are the sizes of a lane and the form of its calls.
type laneOptions struct {
	calls     func() int // under way at once
	gathers   bool       // a call begins beside others only when a batch like theirs has gathered
	size      int        // of a call, in the waiters' weight; a first waiter always fits
	queue     int        // waiters
	perBucket int        // of those
	timeout   time.Duration
	noWait    bool // ask with Call.NoWait
	observe   CoalescerObserver
}

// lane is a queue of callers whose checks share calls of the store. It has no goroutine. A
// caller that comes while a call may begin leads that call. When a call ends, its leader lets
// the first caller in the queue lead the next one.
type lane struct {
	store     service.CheckStore
	options   laneOptions
	abandoned <-chan struct{} // as of callers

	mu     sync.Mutex
	queue  []*waiter
	queued int // weight of the queue
	free   int // waiters of the queue without a bucket in a call under way
	closed bool
	// waiting counts, by hash, the checks in the queue that name a bucket.
	waiting map[uint64]int
	claimed map[uint64]int // as waiting, of the calls under way
	taken   map[uint64]int // as waiting, of the batch that is being filled
	calls   int            // under way
	// asked is the begin of the oldest call under way, as far as it is known. heard is the time of the
	// store's last answer.
	asked, heard time.Time
	moved        time.Time // when a call last began or ended
	isWatched    bool      // watch is going to look at the queue
	// underWay is the weight of all taken waiters without an answer.
	underWay int
	// spent and decided are the time and the weight of past calls; older calls count less in
	// both. Their quotient is the time of a check, in which large batches count for more.
	spent   time.Duration
	decided float64

	batches sync.Pool // of *batch, for use again
}

func newLane(store service.CheckStore, options laneOptions, abandoned <-chan struct{}) *lane {
	return &lane{
		store: store, options: options, abandoned: abandoned,
		waiting: map[uint64]int{}, claimed: map[uint64]int{}, taken: map[uint64]int{},
	}
}

// wait returns the answer for w, unless before it w's ctx ends, the lane is abandoned, or the
// store is found to be away while w is still in the queue. free says that the lane does not hold
// w any more.
func (l *lane) wait(w *waiter) (decisions []service.Decision, free bool, err error) {
	if observe := l.options.observe.Queued; observe != nil {
		defer func() {
			if !w.taken.IsZero() {
				observe(w.ctx, w.joined, w.taken)
			}
		}()
	}
	lead, err := l.join(w)
	if err != nil {
		return nil, true, err
	}
	for away := w.away; lead == nil; {
		select {
		case <-w.done:
			if w.lead == nil {
				return w.decisions, true, w.err
			}
			lead = w.lead
			continue
		case <-w.ctx.Done():
			err = w.ctx.Err()
		case <-w.timer.C:
			err = context.DeadlineExceeded
		case <-l.abandoned: // after refuseQueued: w was answered, or its check is under way
			err = errors.New("shutting down")
		case <-away:
			if l.unqueue(w) {
				return nil, true, fmt.Errorf("%w: left the queue", service.ErrAway)
			}
			away = nil // the check is under way: only its answer tells whether it was recorded
			continue
		}
		switch isQueued := l.unqueue(w); {
		case isQueued:
			return nil, true, fmt.Errorf("%w: left the queue: %w", service.ErrBusy, err)
		case len(w.done) == 0:
			return nil, false, fmt.Errorf("%w: left while the check was under way: %w", service.ErrUndecided, err)
		} // otherwise the answer or a batch to lead has come meanwhile
	}
	l.lead(lead)
	return w.decisions, true, w.err
}

// join returns a batch that w must lead, nil if it was queued, or an error that
// says how soon there will be room.
func (l *lane) join(w *waiter) (*batch, error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	w.decisions, w.err, w.lead = nil, nil, nil
	w.joined, w.taken = now, time.Time{}
	switch {
	case l.closed:
		return nil, shuttingDown()
	case w.isLate(now, l.options.timeout):
		return nil, l.busy(lateReason)
	case len(l.queue) >= l.options.queue:
		return nil, l.busy("queue is full")
	case anyReaches(w, l.waiting, l.options.perBucket):
		return nil, l.busy("too many checks of one bucket are waiting")
	}
	l.queue = append(l.queue, w)
	l.queued += w.weight
	count(l.waiting, w.hashes)
	if l.isFree(w) {
		l.free++
	}
	for {
		b := l.next(now)
		if b == nil {
			l.watch()
		}
		if b == nil || b.leader == w {
			return b, nil
		}
		b.wakeLeader() // a caller that has waited for longer
	}
}

const lateReason = "too little time is left for a batch"

// anyReaches says that some bucket of w is in n or more of the counted checks. Buckets are
// told apart by their hashes, which have 64 bits and a secret seed.
func anyReaches(w *waiter, checks map[uint64]int, n int) bool {
	return slices.ContainsFunc(w.hashes, func(h uint64) bool { return checks[h] >= n })
}

// dequeued undoes the counts of join for w, which has left the queue.
func (l *lane) dequeued(w *waiter) {
	l.queued -= w.weight
	uncount(l.waiting, w.hashes)
	if l.isFree(w) {
		l.free--
	}
}

// isFree says that no call under way has a bucket of w.
func (l *lane) isFree(w *waiter) bool { return !anyReaches(w, l.claimed, 1) }

// claim notes that the buckets of a batch are in a call under way.
func (l *lane) claim(b *batch) {
	for _, w := range b.waiters {
		count(l.claimed, w.hashes)
	}
	l.recount(b)
}

// unclaim undoes the counts of claim.
func (l *lane) unclaim(b *batch) {
	for _, w := range b.waiters {
		uncount(l.claimed, w.hashes)
	}
	l.recount(b)
}

// recount counts anew who is free, if somebody waits for a bucket of the batch.
func (l *lane) recount(b *batch) {
	if !slices.ContainsFunc(b.waiters, func(w *waiter) bool { return anyReaches(w, l.waiting, 1) }) {
		return
	}
	l.free = 0
	for _, w := range l.queue {
		if l.isFree(w) {
			l.free++
		}
	}
}

func count(checks map[uint64]int, hashes []uint64) {
	for _, h := range hashes {
		checks[h]++
	}
}

func uncount(checks map[uint64]int, hashes []uint64) {
	for _, h := range hashes {
		if checks[h]--; checks[h] == 0 {
			delete(checks, h)
		}
	}
}

func (l *lane) busy(reason string) error {
	return service.NewBusyError(l.retryAfter(), reason)
}

// retryAfter estimates when all checks that are in the lane now will be answered, by the time
// that recent checks took. No batch takes longer than its deadline.
func (l *lane) retryAfter() time.Duration {
	batches := 2 + (l.queued-1)/l.options.size
	return min(l.timeFor(l.queued+l.underWay), time.Duration(batches)*l.options.timeout)
}

// timeFor estimates how long the lane takes for checks of a weight, by recent calls.
func (l *lane) timeFor(weight int) time.Duration {
	return time.Duration(float64(weight) * float64(l.spent) / max(l.decided, 1) / float64(l.options.calls()))
}

// unqueue says whether w was still in the queue.
func (l *lane) unqueue(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	place := slices.Index(l.queue, w)
	if place >= 0 {
		l.queue = slices.Delete(l.queue, place, place+1)
		l.dequeued(w)
	}
	return place >= 0
}

// next returns a batch of waiting callers, led by the first of them, or nil if no call may
// begin.
func (l *lane) next(now time.Time) *batch {
	if l.free == 0 || l.calls > 0 && (l.gathers(now) || l.calls >= l.options.calls()) {
		return nil
	}
	b, ok := l.batches.Get().(*batch)
	if !ok {
		b = &batch{}
	}
	if l.options.noWait {
		l.fill(b, now)
	} else {
		l.fillHeld(b, now)
	}
	if len(b.waiters) == 0 {
		l.batches.Put(b)
		return nil
	}
	l.claim(b)
	b.deadline = now.Add(l.options.timeout)
	if l.calls == 0 {
		l.asked = now
	}
	b.leader = b.waiters[0]
	b.leader.lead = b
	l.moved = now
	l.calls++
	l.underWay += b.weight
	return b
}

// begin lets waiting callers lead as many calls as may begin.
func (l *lane) begin(now time.Time) {
	for b := l.next(now); b != nil; b = l.next(now) {
		b.wakeLeader()
	}
}

// minGathered checks must wait before another call begins beside one under way. Smaller calls would cost more
// than their overlap gains. A check of several buckets counts as one, because the fixed cost of a call is
// shared by its checks.
const minGathered = 28

// If no call began or ended for longCall, another call starts with the checks that wait, because the
// database may have lost the running one.
const longCall = 100 * time.Millisecond

// gathers says that no further call begins yet. Enough checks must wait, or as many as the queue can hold,
// and as many as the running calls have on average: many small calls beside a large one cost more than
// calls of one size.
func (l *lane) gathers(now time.Time) bool {
	hasGathered := l.free >= min(minGathered, l.options.queue) && l.free*l.calls >= l.underWay
	return l.options.gathers && !hasGathered && now.Sub(l.moved) < longCall
}

// watch lets the lane begin a call after longCall if none has begun or ended until then, as long as callers
// wait.
func (l *lane) watch() {
	if l.isWatched || !l.options.gathers {
		return
	}
	l.isWatched = true
	time.AfterFunc(longCall, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.isWatched = false
		l.begin(time.Now())
		if len(l.queue) > 0 {
			l.watch()
		}
	})
}

// A batch may always take leastShare checks of one bucket. So many cost a store about a quarter more than a
// lone check.
const leastShare = 16

// overtakenFor is the part of a batch's time for which a check of several buckets may be overtaken.
const overtakenFor = 16

// fill moves callers from the head of the queue into the batch, but for those with a bucket in
// a call under way. A caller whose ctx may end before the batch does is answered with a
// BusyError. While checks of other buckets wait, one bucket gets a quarter of the batch at most,
// and the rest of its checks stay at the head of the queue, so that a flood on one key does not
// make the batches of other keys long. Checks of one bucket keep their order. A check of several
// buckets may be overtaken, as each of them may be in another call at any time; but once it has
// waited for long, the first such check is not overtaken any more.
func (l *lane) fill(b *batch, now time.Time) {
	share := l.share()
	clear(l.taken)
	isReserved := false
	l.queue = slices.DeleteFunc(l.queue, func(w *waiter) bool {
		if !l.hasRoom(b, w) || !l.isFree(w) || anyReaches(w, l.taken, share) {
			if !isReserved && len(w.hashes) > 1 && now.Sub(w.joined) > l.options.timeout/overtakenFor {
				isReserved = true
				for _, h := range w.hashes {
					l.taken[h] = share
				}
			}
			return false
		}
		if l.take(b, w, now) {
			count(l.taken, w.hashes)
		}
		return true
	})
}

// share returns the bound of checks of one bucket in the next batch.
func (l *lane) share() int {
	share := max(leastShare, min(l.free, l.options.size)/4)
	isOther := func(w *waiter) bool { return l.isFree(w) && !anyReaches(w, l.waiting, share+1) }
	if l.free <= share || slices.ContainsFunc(l.queue, isOther) {
		return share
	}
	return l.options.size // there are no others
}

func (l *lane) hasRoom(b *batch, w *waiter) bool {
	return len(b.waiters) == 0 || b.weight+w.weight <= l.options.size
}

// take adds w, which its caller removes from the queue, to a batch. It returns false if w's
// ctx may end before the batch does: then w is answered with a BusyError.
func (l *lane) take(b *batch, w *waiter, now time.Time) bool {
	l.dequeued(w)
	if w.isLate(now, l.options.timeout) {
		w.answer(nil, l.busy(lateReason))
		return false
	}
	w.taken = now
	b.waiters = append(b.waiters, w)
	b.weight += w.weight
	return true
}

// refuseQueued empties the queue: its checks will not be decided.
func (l *lane) refuseQueued() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, w := range l.queue {
		w.answer(nil, shuttingDown())
	}
	l.queue, l.queued, l.free = nil, 0, 0
	clear(l.waiting)
}
