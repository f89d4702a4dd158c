package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"velocityd/service"
	"velocityd/service/shares"
)

// smallBody is the length, in bytes, up to which a body needs no slot. About 180
// checks of 8 buckets each fit in. Decoding them mostly takes 0.3 ms.
const smallBody = 64 << 10

// largeBodyTimeout is the longest time that the rest of a large body may take once its
// request has a slot. A slow sender would keep the slot from others.
const largeBodyTimeout = 3 * time.Second

// slotHold is how long a request keeps its slot after its body was read. A
// request that takes longer waits for the database, not for a core, so the slot
// is freed.
const slotHold = 100 * time.Millisecond

// slotTimeout is the longest wait for a slot. A refused caller would retry after
// one second anyway. Waiting costs nothing, because the body is not read. It also
// slows callers that retry at once.
const slotTimeout = service.BusyRetryAfter

// defaultSlots returns one slot for every two cores, so that large bodies are
// never decoded on all of many cores, and at least four: two for one caller, so that one
// of its bodies can be decoded while another request waits for the database.
func defaultSlots() int { return max(runtime.GOMAXPROCS(0)/2, 4) }

// bodySlots bound how many requests with a large body are worked on at once. A
// request keeps its slot from before its body is read until its answer is ready,
// or until slotHold after its body was read. So the decoding of large bodies
// leaves cores to small requests, and large bodies do not fill the memory.
type bodySlots struct {
	*shares.Pool[string] // requests that wait are served in turn
	waiting              atomic.Int64

	mu   sync.Mutex
	kept time.Duration // moving average of how long a slot is kept
}

func newBodySlots(n int) *bodySlots {
	return &bodySlots{Pool: shares.NewHalves[string](n, "large bodies")}
}

// wait takes a slot, which giveBack returns. It waits for up to slotTimeout. The error wraps service.ErrBusy.
func (s *bodySlots) wait(parent context.Context, shareKey string) error {
	ctx, cancel := context.WithTimeout(parent, slotTimeout)
	defer cancel()
	s.waiting.Add(1)
	err := s.Wait(ctx, shareKey)
	waiting := s.waiting.Add(-1) + 1
	switch {
	case err == nil:
		return nil
	case parent.Err() != nil:
		return fmt.Errorf("%w: caller left before the body was read: %w", service.ErrBusy, parent.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// By then all requests that wait now will have had a slot, if they are of one caller.
	after := s.kept * time.Duration(waiting) / time.Duration(s.Each)
	return fmt.Errorf("%w: %w", service.NewBusyError(after, "too many large bodies at once"), err)
}

// giveBack gives a slot back that was taken at since.
func (s *bodySlots) giveBack(since time.Time, shareKey string) {
	took := time.Since(since)
	s.mu.Lock()
	if s.kept == 0 {
		s.kept = took
	}
	s.kept += (took - s.kept) / 8
	s.mu.Unlock()
	s.GiveBack(shareKey, 1)
}

// takeSlot takes a slot for x until its answer is ready, or returns an error.
func (s *server) takeSlot(x *exchange, rest io.Reader) error {
	shareKey := s.shareKeyOf(x)
	if err := s.slots.wait(x.Request().Context(), shareKey); err != nil {
		// A caller that sent "Expect: 100-continue" has not sent its body yet.
		if r := x.Request(); r.Header.Get("Expect") == "" || r.ContentLength < 0 {
			// Other callers may not look for an answer before they have sent all. To
			// skip the body costs a tenth of decoding it, and keeps the connection.
			_, _ = io.Copy(io.Discard, rest)
		}
		return err
	}
	since := time.Now()
	x.freeSlot = func() { s.slots.giveBack(since, shareKey) }
	x.slotTimer = time.AfterFunc(largeBodyTimeout+slotHold, x.freeSlot)
	return nil
}

// releaseSlot gives back the slot of x, if it still has one. err is the error that x
// ends with, or nil.
func (x *exchange) releaseSlot(err error) {
	switch {
	case x.slotTimer == nil || !x.slotTimer.Stop(): // it never had one, or the timer has given it back
	case errors.Is(err, service.ErrBusy):
		// The service is busy: it would also refuse the next large body after decoding
		// it. So the slot stays taken for a while.
		x.slotTimer.Reset(slotTimeout)
	default:
		x.freeSlot()
	}
	x.slotTimer = nil
}
