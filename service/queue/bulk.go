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

// pieceBuckets bounds the buckets of one piece of a larger call. The fixed cost of a call does not matter
// at this size, and other callers soon get a lock or their turn.
const pieceBuckets = 256

// bulk admits calls with more than one check. They are cut into pieces, and each caller has
// one piece in the lane at a time: so the slice's order holds, callers take turns, and a small
// call does not wait for the whole of a large one.
type bulk struct {
	pieces *lane

	mu      sync.Mutex
	callers map[*bulkCaller]struct{} // admitted, and not dismissed yet
}

// bulkCaller is one call with more than one check.
type bulkCaller struct {
	left int // buckets that were not answered yet
}

// firstPace is the assumed time of a bucket before the first piece was measured. It is rather
// too long: if too many callers were admitted at once, each would get only a part of its
// answers.
const firstPace = 500 * time.Microsecond

func newBulk(pieces *lane) *bulk {
	pieces.spent, pieces.decided = pieceBuckets*firstPace, pieceBuckets
	return &bulk{pieces: pieces, callers: map[*bulkCaller]struct{}{}}
}

// admit admits a call that will be answered before its deadline at the recent pace, and any
// call while there is no other. It refuses others with a BusyError at once, so that the
// admitted callers do not all run out of time with a part of their checks answered.
func (b *bulk) admit(deadline time.Time, buckets int) (*bulkCaller, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	work := buckets
	for other := range b.callers {
		work += 2 * min(other.left, buckets) // twice: callers take turns, and more will come
	}
	if !deadline.IsZero() && len(b.callers) > 0 {
		l := b.pieces
		l.mu.Lock()
		over := l.timeFor(work) - (time.Until(deadline) - l.options.timeout)
		l.mu.Unlock()
		if over > 0 {
			return nil, service.NewBusyError(over, "calls before this one leave too little time")
		}
	}
	caller := &bulkCaller{left: buckets}
	b.callers[caller] = struct{}{}
	return caller, nil
}

// answered notes that so many of a caller's buckets were answered.
func (b *bulk) answered(caller *bulkCaller, buckets int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	caller.left -= buckets
}

func (b *bulk) dismiss(caller *bulkCaller) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.callers, caller)
}

// askMany asks for more than one check, piece by piece.
func (c *Coalescer) askMany(ctx context.Context, q *circuitCall) ([]service.Decision, error) {
	checks := q.asked
	caller, err := c.bulk.admit(earliest(ctx, q.call.Deadline), service.CountBuckets(checks))
	if err != nil {
		return nil, err
	}
	defer c.bulk.dismiss(caller)
	decisions := make([]service.Decision, 0, len(checks))
	for len(decisions) < len(checks) {
		piece := service.Piece(checks[len(decisions):], pieceBuckets)
		answers, err := c.askPiece(ctx, q, piece)
		switch {
		case err != nil && len(decisions) == 0:
			return nil, err
		case err != nil:
			decisions = refuse(decisions, len(piece), err)
			return refuse(decisions, len(checks)-len(decisions), notBegun(err)), nil
		}
		decisions = append(decisions, answers...)
		if place := slices.IndexFunc(
			answers, func(d service.Decision) bool { return errors.Is(d.Err, service.ErrStaleKey) }); place >= 0 {
			return refuse(decisions, len(checks)-len(decisions), answers[place].Err), nil
		}
		c.bulk.answered(caller, service.CountBuckets(piece))
	}
	if !slices.ContainsFunc(decisions, func(d service.Decision) bool { return !errors.Is(d.Err, service.ErrBusy) }) {
		return nil, decisions[0].Err // nothing at all was decided
	}
	return decisions, nil
}

// refuse appends n refused checks.
func refuse(decisions []service.Decision, n int, err error) []service.Decision {
	return append(decisions, slices.Repeat([]service.Decision{{Err: err}}, n)...)
}

// notBegun returns the error of the checks after a piece that failed with err.
func notBegun(err error) error {
	if errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrStaleKey) {
		return err
	}
	return fmt.Errorf("%w: not begun after the failure of earlier checks", service.ErrBusy)
}

// askPiece asks for the checks of one piece, and asks again for those with held buckets.
func (c *Coalescer) askPiece(ctx context.Context, q *circuitCall, piece []service.Check) ([]service.Decision, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: caller left between two pieces: %w", service.ErrBusy, err)
	}
	w := c.newWaiter(ctx, q, piece, service.CountBuckets(piece))
	decisions, free, err := c.bulk.pieces.wait(w)
	if free {
		c.release(w)
	}
	if err != nil {
		return nil, err
	}
	c.askHeld(ctx, q, piece, decisions)
	return decisions, nil
}

// askHeld asks again, and waits, for the checks that were refused with ErrHeld.
func (c *Coalescer) askHeld(ctx context.Context, q *circuitCall, piece []service.Check, decisions []service.Decision) {
	var held []service.Check
	var places []int
	for i, d := range decisions {
		if errors.Is(d.Err, service.ErrHeld) {
			held, places = append(held, piece[i]), append(places, i)
		}
	}
	if len(held) == 0 {
		return
	}
	w := c.newWaiter(ctx, q, held, len(held))
	c.hash(w)
	answers, free, err := c.held.wait(w)
	if free {
		c.release(w)
	}
	scatter(decisions, places, answers, err)
}

// scatter puts answers to their places among decisions, or an error to all of these.
func scatter(decisions []service.Decision, places []int, answers []service.Decision, err error) {
	for i, place := range places {
		if err != nil {
			decisions[place] = service.Decision{Err: err}
			continue
		}
		decisions[place] = answers[i]
	}
}
