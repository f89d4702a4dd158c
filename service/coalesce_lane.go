package service

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// waiter is a caller and what he asks at once: one check or, of a larger call,
// some that are decided together.
type waiter struct {
	ctx    context.Context
	checks []Check
	weight int      // against the size of a call
	hashes []uint64 // of the checks' buckets

	// Set by a lane, which then sends to done, which has room for it: the answer or,
	// if there is a batch, that it is for this caller to lead. A lane does not touch
	// a waiter again whom it has answered.
	decisions []Decision
	err       error
	lead      *batch
	done      chan struct{}
}

func (w *waiter) answer(decisions []Decision, err error) {
	w.decisions, w.err = decisions, err
	w.done <- struct{}{}
}

// isLate says that w's caller gives up before a batch must end that begins now.
func (w *waiter) isLate(now time.Time, timeout time.Duration) bool {
	deadline, limited := w.ctx.Deadline()
	return limited && deadline.Sub(now) < timeout
}

// laneOptions are the sizes of a lane, and what it asks.
type laneOptions struct {
	calls     int // under way at once
	size      int // of a call, in the waiters' weight; a first waiter always fits
	queue     int // waiters
	perBucket int // of those
	timeout   time.Duration
	noWait    bool // ask with Check.NoWait
}

// lane is where callers meet whose checks share calls. It has no goroutine of its
// own: whoever comes while a call may begin leads it, and who leads a call begins
// the next one when it is over, led by the first who waits.
type lane struct {
	store     CheckStore
	options   laneOptions
	abandoned <-chan struct{} // as of callers

	mu     sync.Mutex
	queue  []*waiter
	queued int          // weight of the queue
	length atomic.Int32 // of the queue in buckets, for who looks without the mutex
	closed bool
	// waiting counts, by hash, in how many waiters' checks of the queue a bucket is.
	waiting map[uint64]int
	// claimed counts the buckets of calls under way, if the lane waits for buckets:
	// see apart.
	claimed map[uint64]int
	taken   map[uint64]int // as waiting, of the batch that is being filled
	calls   int            // under way
	// underWay is the weight of what was taken and not answered yet.
	underWay int
	// spent and decided are the time of past calls and their weight, both faded
	// alike: large batches tell more about the time of a check than lone ones.
	spent   time.Duration
	decided float64

	spare sync.Pool // of *batch
}

func newLane(store CheckStore, options laneOptions, abandoned <-chan struct{}) *lane {
	return &lane{
		store: store, options: options, abandoned: abandoned,
		waiting: map[uint64]int{}, claimed: map[uint64]int{}, taken: map[uint64]int{},
	}
}

// wait returns the answer for w, unless w's ctx ends or the lane is abandoned
// before it. free says that the lane does not hold w any more.
func (l *lane) wait(w *waiter) (decisions []Decision, free bool, err error) {
	lead, err := l.join(w)
	switch {
	case err != nil:
		return nil, true, err
	case lead != nil:
		l.lead(lead)
		return w.decisions, true, w.err
	}
	select {
	case <-w.done:
		return l.answered(w)
	case <-w.ctx.Done():
		return l.leave(w, w.ctx.Err())
	case <-l.abandoned:
		return l.leave(w, shuttingDown())
	}
}

// answered returns w's answer, for which w may have to lead his batch.
func (l *lane) answered(w *waiter) ([]Decision, bool, error) {
	if w.lead != nil {
		l.lead(w.lead)
	}
	return w.decisions, true, w.err
}

// join returns a batch that w must lead, nil if it was queued, or an error that
// says how soon there will be room.
func (l *lane) join(w *waiter) (*batch, error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	w.decisions, w.err, w.lead = nil, nil, nil
	switch {
	case l.closed:
		return nil, shuttingDown()
	case w.isLate(now, l.options.timeout):
		return nil, l.busy(lateReason)
	case len(l.queue) >= l.options.queue:
		return nil, l.busy("queue is full")
	case hasShare(w, l.waiting, l.options.perBucket):
		return nil, l.busy("too many checks of one bucket are waiting")
	}
	l.queue = append(l.queue, w)
	l.queued += w.weight
	l.length.Add(int32(len(w.hashes)))
	count(l.waiting, w.hashes)
	for {
		b := l.next(now)
		if b == nil || b.leader == w {
			return b, nil
		}
		// Somebody who has waited for longer has become free to begin. Under the mutex:
		// who finds himself out of the queue must find this, too.
		b.leader.done <- struct{}{}
	}
}

const lateReason = "too little time is left for a batch"

// hasShare says that some bucket of w is in as many checks as share already. Two
// buckets of one hash would count as one; the hash has 64 bits and a secret seed.
func hasShare(w *waiter, checks map[uint64]int, share int) bool {
	return slices.ContainsFunc(w.hashes, func(h uint64) bool { return checks[h] >= share })
}

// dequeued takes note that w, whom join has queued, waits no more.
func (l *lane) dequeued(w *waiter) {
	l.queued -= w.weight
	l.length.Add(-int32(len(w.hashes)))
	uncount(l.waiting, w.hashes)
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
	return NewBusyError(l.retryAfter(), reason)
}

// retryAfter is when those who are in the lane now will be through, by the time
// that a check took of late. No batch takes longer than its deadline.
func (l *lane) retryAfter() time.Duration {
	batches := 2 + (l.queued-1)/l.options.size
	return min(l.timeFor(l.queued+l.underWay), time.Duration(batches)*l.options.timeout)
}

// timeFor is how long the lane takes for so much weight, by what it took of late.
func (l *lane) timeFor(weight int) time.Duration {
	return time.Duration(float64(weight) * float64(l.spent) / max(l.decided, 1) / float64(l.options.calls))
}

// leave takes w out of the queue or, if it is not there any more, away from its
// check. If the answer has come meanwhile, that is what w gets, and if it has come
// to lead, it does.
func (l *lane) leave(w *waiter, why error) (decisions []Decision, free bool, err error) {
	if l.unqueue(w) {
		return nil, true, fmt.Errorf("%w: left the queue: %w", ErrBusy, why)
	}
	select {
	case <-w.done:
		return l.answered(w)
	default:
		return nil, false, fmt.Errorf("%w: left while the check was under way: %w", ErrUndecided, why)
	}
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

// next returns a batch of those who wait, the first one its leader, or nil if no
// call may begin.
func (l *lane) next(now time.Time) *batch {
	if l.calls == l.options.calls || len(l.queue) == 0 {
		return nil
	}
	b, ok := l.spare.Get().(*batch)
	if !ok {
		b = &batch{}
	}
	if l.options.noWait {
		l.fill(b, now)
	} else {
		l.apart(b, now)
	}
	if len(b.waiters) == 0 {
		l.spare.Put(b)
		return nil
	}
	b.deadline = now.Add(l.options.timeout)
	b.leader = b.waiters[0]
	b.leader.lead = b
	l.calls++
	l.underWay += b.weight
	return b
}

// leastShare is how many checks of one bucket a batch takes in any case: about as
// many as cost a store a quarter more than a lone check, which nobody notices.
const leastShare = 16

// fill moves the head of the queue into the batch, but for those whose time a
// batch might not keep: they are answered. While others wait, a bucket gets a
// quarter of the batch at most and the rest of its checks stay at the head, so
// that a flood on one key does not make its neighbours' batches long. Lone checks of
// a bucket keep their order; of checks with several buckets a later one may be first.
func (l *lane) fill(b *batch, now time.Time) {
	share := l.share()
	clear(l.taken)
	l.queue = slices.DeleteFunc(l.queue, func(w *waiter) bool {
		if !l.hasRoom(b, w) || hasShare(w, l.taken, share) {
			return false
		}
		if l.take(b, w, now) {
			count(l.taken, w.hashes)
		}
		return true
	})
}

// share is how many checks of one bucket the next batch takes.
func (l *lane) share() int {
	share := max(leastShare, min(len(l.queue), l.options.size)/4)
	if len(l.queue) <= share || slices.ContainsFunc(l.queue, func(w *waiter) bool { return !hasShare(w, l.waiting, share+1) }) {
		return share
	}
	return l.options.size // there are no others
}

func (l *lane) hasRoom(b *batch, w *waiter) bool {
	return len(b.waiters) == 0 || b.weight+w.weight <= l.options.size
}

// take adds w, which the caller takes off the queue, to a batch. It is false if
// w's time does not allow that: then w is told so.
func (l *lane) take(b *batch, w *waiter, now time.Time) bool {
	l.dequeued(w)
	if w.isLate(now, l.options.timeout) {
		w.answer(nil, l.busy(lateReason))
		return false
	}
	b.waiters = append(b.waiters, w)
	b.weight += w.weight
	return true
}

// refuseQueued empties the queue for good: what is in it will not be decided.
func (l *lane) refuseQueued() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, w := range l.queue {
		w.answer(nil, shuttingDown())
	}
	l.queue, l.queued = nil, 0
	l.length.Store(0)
	clear(l.waiting)
}
