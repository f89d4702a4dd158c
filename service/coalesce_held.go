package service

import (
	"errors"
	"slices"
	"time"
)

// apart moves the first waiter none of whose buckets is in a call under way into
// the batch, and behind him those who name one of his buckets and none that is in
// another call. So a bucket is in one call at a time, however many wait for it: one
// that is held for long occupies one call, and the others go on.
func (l *lane) apart(b *batch, now time.Time) {
	clear(l.taken)
	l.queue = slices.DeleteFunc(l.queue, func(w *waiter) bool {
		first := len(b.waiters) == 0
		if !l.hasRoom(b, w) || hasShare(w, l.claimed, 1) || !first && !hasShare(w, l.taken, 1) {
			return false
		}
		if l.take(b, w, now) && first {
			count(l.taken, w.hashes)
		}
		return true
	})
	for _, w := range b.waiters {
		count(l.claimed, w.hashes)
	}
}

// unclaim lets the buckets of a batch go that was answered. Those that the store
// has waited for in vain are held for long: who waits for them here is told so.
func (l *lane) unclaim(b *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var told []uint64
	for _, w := range b.waiters {
		uncount(l.claimed, w.hashes)
		buckets := w.hashes
		for i, check := range w.checks {
			var set []uint64
			set, buckets = buckets[:len(check.Buckets)], buckets[len(check.Buckets):]
			if !w.isBusy(i) || slices.Equal(set, told) {
				continue
			}
			told = set
			l.refuseWaitingFor(set)
		}
	}
}

// isBusy says whether w was told busy about its check i, in whatever words; for a
// bucket that is held, in those of heldForLong.
func (w *waiter) isBusy(i int) bool {
	if w.err != nil {
		return errors.Is(w.err, ErrBusy)
	}
	if !errors.Is(w.decisions[i].Err, ErrBusy) {
		return false
	}
	w.decisions[i].Err = heldForLong()
	return true
}

// heldForLong is as much as is known: the holder may be gone in a second or not.
func heldForLong() error {
	return NewBusyError(0, "another session holds a bucket for long")
}

// refuseWaitingFor answers all who wait with a check of these buckets, and perhaps
// of others.
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
