package service

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// waiter is a caller and his one check.
type waiter struct {
	ctx    context.Context
	check  Check
	hashes []uint64 // of the check's buckets

	// The lane sets these and then sends to done, which has room for it, and does
	// not touch the waiter again.
	decisions []Decision
	err       error
	done      chan struct{}
}

func (w *waiter) answer(decisions []Decision, err error) {
	w.decisions, w.err = decisions, err
	w.done <- struct{}{}
}

// lane is a queue and the one goroutine that empties it.
type lane struct {
	store   CheckStore
	options CoalescerOptions
	ended   chan struct{} // closed when run returns

	mu     sync.Mutex
	wake   sync.Cond // the queue has its first waiter, or the lane is closed
	queue  []*waiter
	closed bool
	// waiting counts, by hash, in how many checks of the queue a bucket is.
	waiting map[uint64]int
	// underWay is how many checks were taken and not answered yet.
	underWay int
	// spent and decided are the time of past batches and their checks, both faded
	// alike: large batches tell more about the time of a check than lone ones.
	spent   time.Duration
	decided float64
	stats   CoalescerStats

	// Used by run alone.
	batch  []*waiter
	taken  map[uint64]int // as waiting, of the batch
	checks []Check
}

func newLane(store CheckStore, options CoalescerOptions) *lane {
	l := &lane{store: store, options: options, ended: make(chan struct{}), waiting: map[uint64]int{}, taken: map[uint64]int{}}
	l.wake.L = &l.mu
	return l
}

// wait queues w and returns its answer, unless w's ctx or abandoned ends before
// it. free says that the lane does not hold w any more.
func (l *lane) wait(w *waiter, abandoned <-chan struct{}) (decisions []Decision, free bool, err error) {
	if err := l.join(w); err != nil {
		return nil, true, err
	}
	select {
	case <-w.done:
		return w.decisions, true, w.err
	case <-w.ctx.Done():
		return l.leave(w, w.ctx.Err())
	case <-abandoned:
		return l.leave(w, shuttingDown())
	}
}

// join queues w, or says how soon there will be room.
func (l *lane) join(w *waiter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return shuttingDown()
	case w.isLate(time.Now(), l.options.Timeout):
		l.stats.Late++
		return l.busy(lateReason)
	case len(l.queue) >= l.options.Queue:
		l.stats.Refused++
		return l.busy("queue is full")
	case hasShare(w, l.waiting, l.options.QueuePerBucket):
		l.stats.Refused++
		return l.busy("too many checks of one bucket are waiting")
	}
	l.queue = append(l.queue, w)
	for _, h := range w.hashes {
		l.waiting[h]++
	}
	if len(l.queue) == 1 {
		l.wake.Signal()
	}
	return nil
}

const lateReason = "too little time is left for a batch"

// isLate says that w's caller gives up before a batch must end that begins now.
func (w *waiter) isLate(now time.Time, timeout time.Duration) bool {
	deadline, limited := w.ctx.Deadline()
	return limited && deadline.Sub(now) < timeout
}

// hasShare says that some bucket of w is in as many checks as share already. Two
// buckets of one hash would count as one; the hash has 64 bits and a secret seed.
func hasShare(w *waiter, checks map[uint64]int, share int) bool {
	return slices.ContainsFunc(w.hashes, func(h uint64) bool { return checks[h] >= share })
}

// uncount takes back what join has counted.
func (l *lane) uncount(w *waiter) {
	for _, h := range w.hashes {
		if l.waiting[h]--; l.waiting[h] == 0 {
			delete(l.waiting, h)
		}
	}
}

func (l *lane) busy(reason string) error {
	return &BusyError{RetryAfter: l.retryAfter(), reason: reason}
}

// retryAfter is when those who are in the lane now will be through, by the time
// that a check took of late. No batch takes longer than its deadline.
func (l *lane) retryAfter() time.Duration {
	ahead := float64(len(l.queue) + l.underWay)
	wait := time.Duration(ahead * float64(l.spent) / max(l.decided, 1))
	batches := 2 + (len(l.queue)-1)/l.options.MaxBatch
	wait = min(wait, time.Duration(batches)*l.options.Timeout)
	return max((wait + time.Second - 1).Truncate(time.Second), BusyRetryAfter)
}

// leave takes w out of the queue or, if it is not there any more, away from its
// check. If the answer has come meanwhile, that is what w gets.
func (l *lane) leave(w *waiter, why error) (decisions []Decision, free bool, err error) {
	if l.unqueue(w) {
		return nil, true, fmt.Errorf("%w: left the queue: %w", ErrBusy, why)
	}
	select {
	case <-w.done:
		return w.decisions, true, w.err
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
		l.uncount(w)
	}
	return place >= 0
}

// run decides batch after batch until the lane is closed and empty.
func (l *lane) run() {
	defer close(l.ended)
	for batch := l.take(); len(batch) > 0; batch = l.take() {
		checks, began := len(batch), time.Now()
		l.decide(batch)
		clear(batch)
		l.observe(checks, time.Since(began))
	}
}

// take waits for a first check and returns it with whatever waits behind it, or
// nothing if the lane is closed. The slice is good until the next take.
func (l *lane) take() []*waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.batch = l.batch[:0]; len(l.batch) == 0; {
		for len(l.queue) == 0 && !l.closed {
			l.wake.Wait()
		}
		if len(l.queue) == 0 {
			return nil
		}
		l.fill()
	}
	l.underWay = len(l.batch)
	l.stats.Batches++
	l.stats.Checks += uint64(len(l.batch))
	return l.batch
}

// leastShare is how many checks of one bucket a batch takes in any case: about as
// many as cost a store a quarter more than a lone check, which nobody notices.
const leastShare = 16

// fill moves the head of the queue into the batch, but for those whose time a
// batch might not keep: they are answered. While others wait, a bucket gets a
// quarter of the batch at most and the rest of its checks stay at the head, so
// that a flood on one key does not make its neighbours' batches long. Lone checks of
// a bucket keep their order; of checks with several buckets a later one may be first.
func (l *lane) fill() {
	now, share := time.Now(), max(leastShare, min(len(l.queue), l.options.MaxBatch)/4)
	if !slices.ContainsFunc(l.queue, func(w *waiter) bool { return !hasShare(w, l.waiting, share+1) }) {
		share = l.options.MaxBatch // there are no others
	}
	clear(l.taken)
	left := l.queue[:0]
	for _, w := range l.queue {
		if len(l.batch) == l.options.MaxBatch || hasShare(w, l.taken, share) {
			left = append(left, w)
			continue
		}
		l.uncount(w)
		if w.isLate(now, l.options.Timeout) {
			l.stats.Late++
			w.answer(nil, l.busy(lateReason))
			continue
		}
		for _, h := range w.hashes {
			l.taken[h]++
		}
		l.batch = append(l.batch, w)
	}
	clear(l.queue[len(left):])
	l.queue = left
}

// observe remembers how long a batch took; older ones count less and less.
func (l *lane) observe(checks int, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.underWay = 0
	l.spent = l.spent*7/8 + took
	l.decided = l.decided*7/8 + float64(checks)
}

// decide answers every waiter of a batch.
func (l *lane) decide(batch []*waiter) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), l.options.Timeout)
	defer cancel()
	l.ask(ctx, batch)
}

// ask answers every waiter of batch by one call of the store. If that fails by
// the fault of single checks, nothing was decided, and they are asked apart, in
// smaller batches and under the same deadline, until the fault stands alone.
func (l *lane) ask(ctx context.Context, batch []*waiter) {
	decisions, err := l.call(ctx, batch)
	if err == nil {
		for i, w := range batch {
			w.answer(decisions[i:i+1:i+1], nil)
		}
		return
	}
	split := len(batch) / 2
	switch {
	case errors.Is(err, ErrBusy), errors.Is(err, ErrUndecided):
		// Nobody's fault, and what may have been counted is not asked again.
		split = 0
	case errors.Is(err, ErrStaleKey):
		split = alikeFirst(batch) % len(batch) // all alike: all stale
	}
	if split == 0 {
		refuse(batch, err)
		return
	}
	for _, part := range [][]*waiter{batch[:split], batch[split:]} {
		if ctx.Err() != nil {
			refuse(part, fmt.Errorf("%w: no time left to ask apart from a check that failed", ErrBusy))
			continue
		}
		l.ask(ctx, part)
	}
}

func refuse(batch []*waiter, err error) {
	for _, w := range batch {
		w.answer(nil, err)
	}
}

// call calls the store. A panic is told to the callers, who may have been
// counted, and not to the lane, which others need.
func (l *lane) call(ctx context.Context, batch []*waiter) (decisions []Decision, err error) {
	l.checks = l.checks[:0]
	for _, w := range batch {
		l.checks = append(l.checks, w.check)
	}
	defer func() {
		clear(l.checks)
		if r := recover(); r != nil {
			decisions, err = nil, fmt.Errorf("%w: store panicked: %v\n%s", ErrUndecided, r, debug.Stack())
		}
	}()
	decisions, err = l.store.CheckAll(ctx, l.checks)
	if err == nil && len(decisions) != len(batch) {
		err = fmt.Errorf("%w: store answered %d of %d checks", ErrUndecided, len(decisions), len(batch))
	}
	return decisions, err
}

// alikeFirst brings the waiters whose checks have the same zones and key rules
// as the first one's to the front, otherwise in order, and returns how many they
// are. A key is stale by its zone and rule, so they are all stale or none is: an
// edited zone costs a batch a few calls, however many checks it holds.
func alikeFirst(batch []*waiter) int {
	first := batch[0].check
	var others []*waiter
	n := 0
	for _, w := range batch {
		if w.check.staleAs(first) {
			batch[n] = w
			n++
		} else {
			others = append(others, w)
		}
	}
	copy(batch[n:], others)
	return n
}

func (c Check) staleAs(other Check) bool {
	sameZone := func(a, b Bucket) bool { return a.ZoneID == b.ZoneID }
	return slices.EqualFunc(c.Buckets, other.Buckets, sameZone) && slices.Equal(c.KeyRules, other.KeyRules)
}

// close lets the lane end when its queue is empty.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake.Signal()
}

// awaitEnd returns when run has, or with ctx's error if that ends before.
func (l *lane) awaitEnd(ctx context.Context) error {
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-l.ended: // both: it was in time
		return nil
	default:
		return ctx.Err()
	}
}

// refuseQueued empties the queue: what is in it will not be decided.
func (l *lane) refuseQueued() {
	l.mu.Lock()
	defer l.mu.Unlock()
	refuse(l.queue, shuttingDown())
	l.queue = nil
	clear(l.waiting)
}

func (l *lane) addTo(stats *CoalescerStats, i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stats.Batches += l.stats.Batches
	stats.Checks += l.stats.Checks
	stats.Refused += l.stats.Refused
	stats.Late += l.stats.Late
	stats.Queued[i] = len(l.queue)
}
