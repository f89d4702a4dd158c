package queue

import (
	"context"
	"iter"
	"time"

	"velocityd/service"
)

// CoalescerObserver hears of the work of a Coalescer, for metrics and traces. Many goroutines call its
// funcs at once, and never under a lock of the Coalescer. A nil func is not called.
type CoalescerObserver struct {
	// Queued is called for each check or piece of a larger call that was taken from a queue, on
	// its caller's goroutine and after the answer. ctx is the caller's. joined and taken are when
	// it came to the queue and when its batch began; taken may be earlier by some microseconds.
	// A check of a held bucket waits in queues up to three times.
	Queued func(ctx context.Context, joined, taken time.Time)
	// Asked is called after each call of the store, on the goroutine of the batch's leader.
	Asked func(call Asked)
}

// Asked is a call of the store that has ended.
type Asked struct {
	Began time.Time
	// Checks is how many checks were asked.
	Checks int
	// Decisions and Err are the store's answer, which must not be kept or changed.
	Decisions []service.Decision
	Err       error

	callers iter.Seq[context.Context]
}

// Callers yields the contexts of all whose checks were asked, the leader's first. It must not be used after Asked
// has returned.
func (a Asked) Callers() iter.Seq[context.Context] { return a.callers }

func oneCaller(ctx context.Context) iter.Seq[context.Context] {
	return func(yield func(context.Context) bool) { yield(ctx) }
}

// LaneUse is how much of the lanes of one kind is used.
type LaneUse struct {
	Lanes   int // calls that may be under way at once
	Busy    int // calls that are under way
	Waiting int // callers in the queues
}

// Use returns the use of the lanes for lone checks, for pieces of larger calls, and for held buckets. It
// looks at one lane after the other, so the numbers may be microseconds apart.
func (c *Coalescer) Use() (lone, bulk, held LaneUse) {
	for _, l := range c.lanes {
		lone.add(l)
	}
	lone.Lanes = c.mostCalls()
	bulk.add(c.bulk.pieces)
	held.add(c.held)
	return lone, bulk, held
}

func (u *LaneUse) add(l *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u.Lanes += l.options.calls()
	u.Busy += l.calls
	u.Waiting += len(l.queue)
}
