package queue

import (
	"errors"
	"slices"
	"time"

	"velocityd/service"
)

// fillHeld moves one waiter into the batch: the first without a bucket in a call under way. It adds the
// waiters behind it that share a bucket with it and have no bucket in another call. So one held bucket
// occupies one call, however many checks wait for it, and checks of other buckets go on.
func (l *lane) fillHeld(b *batch, now time.Time) {
	clear(l.taken)
	l.queue = slices.DeleteFunc(l.queue, func(w *waiter) bool {
		first := len(b.waiters) == 0
		if !l.hasRoom(b, w) || !l.isFree(w) || !first && !anyReaches(w, l.taken, 1) {
			return false
		}
		if l.take(b, w, now) && first {
			count(l.taken, w.hashes)
		}
		return true
	})
}

// refuseHeld refuses all callers that wait for buckets for which the store's lock wait has timed out: these
// are held for long.
func (l *lane) refuseHeld(b *batch) {
	var refused []uint64
	for _, w := range b.waiters {
		buckets := w.hashes
		for i, check := range w.checks {
			var set []uint64
			set, buckets = buckets[:len(check.Buckets)], buckets[len(check.Buckets):]
			if !w.isHeld(i) || slices.Equal(set, refused) {
				continue
			}
			refused = set
			l.refuseWaitingFor(set)
		}
		w.tellHeld()
	}
}

// isHeld says that the lock wait for a bucket of w's check i has timed out.
func (w *waiter) isHeld(i int) bool {
	if w.err != nil {
		return errors.Is(w.err, service.ErrHeld)
	}
	return errors.Is(w.decisions[i].Err, service.ErrHeld)
}

// tellHeld replaces ErrHeld in w's answer by heldForLong.
func (w *waiter) tellHeld() {
	if errors.Is(w.err, service.ErrHeld) {
		w.err = heldForLong()
	}
	for i := range w.decisions {
		if errors.Is(w.decisions[i].Err, service.ErrHeld) {
			w.decisions[i].Err = heldForLong()
		}
	}
}

// heldForLong is the error of a check whose bucket stayed held. The end is not known, so it asks the caller to wait the
// least time.
func heldForLong() error {
	busy := service.NewBusyError(0, "another session holds a bucket for long")
	busy.Held = true
	return busy
}

// refuseWaitingFor refuses all lone checks in the queue that name all of these buckets.
func (l *lane) refuseWaitingFor(buckets []uint64) {
	l.queue = slices.DeleteFunc(l.queue, func(w *waiter) bool {
		missing := func(h uint64) bool { return !slices.Contains(w.hashes, h) }
		if len(w.checks) > 1 || slices.ContainsFunc(buckets, missing) {
			return false
		}
		l.dequeued(w)
		w.answer(nil, heldForLong())
		return true
	})
}
