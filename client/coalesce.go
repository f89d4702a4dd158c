package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"velocityd/service"
)

const (
	// batchBuckets bounds the buckets of one shared request. The service decides so many in one piece, and the body stays
	// below the size that waits for a slot.
	batchBuckets = 256
	// maxSharedRequests bounds the shared requests under way.
	maxSharedRequests = 16
	// slowShared is how long a request may be under way alone. If it takes longer, perhaps because another session
	// holds one of its buckets, the checks that have gathered meanwhile do not wait for it.
	slowShared = 100 * time.Millisecond
)

// WithCoalescing lets checks of this Client that meet share a request: while one is under way, further
// calls of Check gather, and go together when it returns. No check waits for others to come. A shared
// request costs the caller and the service much less than one for each check, and the checks are counted as
// exactly: each has its own attempt id, answer, error and deadline. While there are other requests, a
// check may wait as long as the one before it takes, for a tenth of a second at most.
//
// Requests are made in the name of the Client alone: values of the callers' contexts, such as traces, do
// not reach the HTTP client.
func WithCoalescing() Option {
	return func(c *Client) { c.coalescer = &coalescer{ask: c.askBatch} }
}

// batch is the checks that go as one request.
type batch struct {
	checks  []service.Check
	isGone  []bool // whose caller left before the request
	buckets int
	until   time.Time // the last of the callers' deadlines
	late    *time.Timer
	done    chan struct{} // closed when the answers are there, which are not written again
	answers []answerOf
}

// answerOf is the answer to one check, and the number of checks in its request.
type answerOf struct {
	decision  service.Decision
	err       error
	batchSize int
}

// coalescer gathers checks while a request is under way. Each request runs on a goroutine of the coalescer, which then
// takes the next batch and ends when nobody waits. So a caller can leave at any time.
type coalescer struct {
	ask func(ctx context.Context, checks []service.Check) []answerOf

	mu       sync.Mutex
	underWay int
	waiting  []*batch // only the last one has room
}

// check returns the answer to a check that goes along with others. left is the error of a caller who left; then isSent
// says whether the check may have been asked.
func (c *coalescer) check(ctx context.Context, check service.Check) (a answerOf, isSent bool, left error) {
	b, index := c.join(ctx, check)
	select {
	case <-b.done:
		return b.answers[index], true, nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	isSent = !slices.Contains(c.waiting, b)
	if !isSent {
		b.isGone[index] = true
	}
	return answerOf{}, isSent, ctx.Err()
}

// join puts a check into the last batch that waits, and lets a batch go if no request is under way.
func (c *coalescer) join(ctx context.Context, check service.Check) (b *batch, index int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.waiting); n > 0 && c.waiting[n-1].buckets+len(check.Buckets) <= batchBuckets {
		b = c.waiting[n-1]
	} else {
		b = &batch{done: make(chan struct{})}
		c.waiting = append(c.waiting, b)
	}
	index = len(b.checks)
	b.checks, b.isGone, b.buckets = append(b.checks, check), append(b.isGone, false), b.buckets+len(check.Buckets)
	if deadline, _ := ctx.Deadline(); deadline.After(b.until) {
		b.until = deadline
	}
	switch {
	case c.underWay == 0:
		c.start()
	case b.late == nil:
		b.late = time.AfterFunc(slowShared, func() { c.overtake(b) })
	}
	return b, index
}

// overtake lets the batch at the head go beside a slow request, if b still waits.
func (c *coalescer) overtake(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.waiting, b) && c.underWay < maxSharedRequests {
		c.start()
	}
}

// start begins a request. The mutex is held, and somebody waits.
func (c *coalescer) start() {
	c.underWay++
	go c.run(c.next())
}

// next takes the batch at the head out of the queue.
func (c *coalescer) next() *batch {
	b := c.waiting[0]
	c.waiting = slices.Delete(c.waiting, 0, 1)
	if b.late != nil {
		b.late.Stop()
	}
	return b
}

// run asks one batch after the other, until nobody waits.
func (c *coalescer) run(b *batch) {
	for b != nil {
		c.answer(b)
		b = nil
		c.mu.Lock()
		if len(c.waiting) > 0 {
			b = c.next()
		} else {
			c.underWay--
		}
		c.mu.Unlock()
	}
}

// answer asks the checks of a batch whose callers have not left.
func (c *coalescer) answer(b *batch) {
	defer close(b.done)
	var asked []service.Check
	var indexes []int
	for i, check := range b.checks {
		if !b.isGone[i] {
			asked, indexes = append(asked, check), append(indexes, i)
		}
	}
	b.answers = make([]answerOf, len(b.checks))
	if len(asked) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), b.until)
	defer cancel()
	for i, a := range c.ask(ctx, asked) {
		b.answers[indexes[i]] = a
	}
}
