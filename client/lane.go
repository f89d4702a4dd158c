package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"velocityd/service"
)

const (
	// partyBuckets bounds the buckets of one shared request. The service decides so many in one piece, and the body stays
	// below the size that waits for a slot.
	partyBuckets = 256
	// mostShared bounds the shared requests under way.
	mostShared = 16
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
	return func(c *Client) { c.lane = &lane{ask: c.askParty} }
}

// party is the checks that go as one request.
type party struct {
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
	decision service.Decision
	err      error
	batch    int
}

// lane gathers checks while a request is under way. Each request runs on a goroutine of the lane, which then
// takes the next party and ends when nobody waits. So a caller can leave at any time.
type lane struct {
	ask func(ctx context.Context, checks []service.Check) []answerOf

	mu       sync.Mutex
	underWay int
	waiting  []*party // only the last one has room
}

// check returns the answer to a check that goes along with others. left is the error of a caller who left; then isSent
// says whether the check may have been asked.
func (l *lane) check(ctx context.Context, check service.Check) (a answerOf, isSent bool, left error) {
	p, seat := l.join(ctx, check)
	select {
	case <-p.done:
		return p.answers[seat], true, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	isSent = !slices.Contains(l.waiting, p)
	if !isSent {
		p.isGone[seat] = true
	}
	return answerOf{}, isSent, ctx.Err()
}

// join puts a check into the last party that waits, and lets a party go if no request is under way.
func (l *lane) join(ctx context.Context, check service.Check) (p *party, seat int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.waiting); n > 0 && l.waiting[n-1].buckets+len(check.Buckets) <= partyBuckets {
		p = l.waiting[n-1]
	} else {
		p = &party{done: make(chan struct{})}
		l.waiting = append(l.waiting, p)
	}
	seat = len(p.checks)
	p.checks, p.isGone, p.buckets = append(p.checks, check), append(p.isGone, false), p.buckets+len(check.Buckets)
	if deadline, _ := ctx.Deadline(); deadline.After(p.until) {
		p.until = deadline
	}
	switch {
	case l.underWay == 0:
		l.start()
	case p.late == nil:
		p.late = time.AfterFunc(slowShared, func() { l.overtake(p) })
	}
	return p, seat
}

// overtake lets the party at the head go beside a slow request, if p still waits.
func (l *lane) overtake(p *party) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.waiting, p) && l.underWay < mostShared {
		l.start()
	}
}

// start begins a request. The mutex is held, and somebody waits.
func (l *lane) start() {
	l.underWay++
	go l.run(l.next())
}

// next takes the party at the head out of the queue.
func (l *lane) next() *party {
	p := l.waiting[0]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	if p.late != nil {
		p.late.Stop()
	}
	return p
}

// run asks one party after the other, until nobody waits.
func (l *lane) run(p *party) {
	for p != nil {
		l.answer(p)
		p = nil
		l.mu.Lock()
		if len(l.waiting) > 0 {
			p = l.next()
		} else {
			l.underWay--
		}
		l.mu.Unlock()
	}
}

// answer asks the checks of a party whose callers have not left.
func (l *lane) answer(p *party) {
	defer close(p.done)
	var asked []service.Check
	var seats []int
	for i, check := range p.checks {
		if !p.isGone[i] {
			asked, seats = append(asked, check), append(seats, i)
		}
	}
	p.answers = make([]answerOf, len(p.checks))
	if len(asked) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), p.until)
	defer cancel()
	for i, a := range l.ask(ctx, asked) {
		p.answers[seats[i]] = a
	}
}
