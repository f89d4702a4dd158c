package queue

import (
	"context"
	"time"

	"velocityd/service"
)

// waiter is a caller with the checks that it asks at once: a lone check, or a piece of a
// larger call.
type waiter struct {
	ctx      context.Context
	deadline time.Time // when its caller gives up; zero: never
	timer    *time.Timer
	checks   []service.Check
	weight   int             // against the size of a call
	hashes   []uint64        // of the checks' buckets
	away     <-chan struct{} // as that of its circuitCall
	patience time.Duration   // as that of its circuitCall
	joined   time.Time
	taken    time.Time // into a batch; zero if it was not

	// A lane sets these and then sends to done, which has room for one value: either the
	// answer is there, or lead is a batch that this caller must lead. After the answer the
	// lane does not touch the waiter again.
	decisions []service.Decision
	err       error
	lead      *batch
	done      chan struct{}
}

func newWaiter() *waiter {
	w := &waiter{done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}

// givesUp sets when w's caller gives up: at the end of w's ctx, or at the deadline of its call.
func (w *waiter) givesUp(deadline time.Time) {
	w.deadline = earliest(w.ctx, deadline)
	if !deadline.IsZero() {
		w.timer.Reset(time.Until(deadline))
	}
}

// earliest returns the earlier of a deadline and that of ctx; zero is none.
func earliest(ctx context.Context, deadline time.Time) time.Time {
	if own, limited := ctx.Deadline(); limited && (deadline.IsZero() || own.Before(deadline)) {
		return own
	}
	return deadline
}

func (w *waiter) answer(decisions []service.Decision, err error) {
	w.decisions, w.err = decisions, err
	w.done <- struct{}{}
}

// isLate says that w's caller gives up before a batch must end that begins now.
func (w *waiter) isLate(now time.Time, timeout time.Duration) bool {
	return !w.deadline.IsZero() && w.deadline.Sub(now) < timeout
}
