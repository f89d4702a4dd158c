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
	checks   []service.Check
	weight   int             // against the size of a call
	hashes   []uint64        // of the checks' buckets
	away     <-chan struct{} // closed when the caller need not wait any longer; nil: it must
	patience time.Duration   // of its call
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

func (w *waiter) answer(decisions []service.Decision, err error) {
	w.decisions, w.err = decisions, err
	w.done <- struct{}{}
}

// isLate says that w's caller gives up before a batch must end that begins now.
func (w *waiter) isLate(now time.Time, timeout time.Duration) bool {
	deadline, limited := w.ctx.Deadline()
	return limited && deadline.Sub(now) < timeout
}
