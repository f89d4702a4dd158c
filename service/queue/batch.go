package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"time"

	"velocityd/service"
)

// batch is the callers that share one call of the store. One of them, the leader, makes it.
type batch struct {
	leader   *waiter
	waiters  []*waiter
	weight   int
	deadline time.Time
	checks   []service.Check // of a call; the store's until it returns
	parts    [][]*waiter     // of waiters, which are not asked yet
}

// wakeLeader must be called under the mutex of the lane: if the leader finds that it is not in the
// queue any more, it must also find done filled.
func (b *batch) wakeLeader() { b.leader.done <- struct{}{} }

// lead answers all of a batch, on the goroutine of its leader. If single checks make the call of the store fail,
// nothing was decided: then the waiters are split and each part is asked again, under the same deadline, until
// the checks at fault are alone.
func (l *lane) lead(b *batch) {
	began := time.Now()
	ctx, cancel := context.WithDeadline(context.WithoutCancel(b.leader.ctx), b.deadline)
	for b.parts = append(b.parts, b.waiters); len(b.parts) > 0; {
		part := b.parts[len(b.parts)-1]
		b.parts = b.parts[:len(b.parts)-1]
		if len(part) < len(b.waiters) && ctx.Err() != nil {
			fail(part, fmt.Errorf("%w: no time left to ask apart from a check that failed", service.ErrBusy))
			continue
		}
		decisions, err := l.call(ctx, b, part)
		if split := l.settle(ctx, part, decisions, err); split > 0 {
			b.parts = append(b.parts, part[split:], part[:split])
		}
	}
	cancel()
	ended := time.Now()
	// The next call begins before the answers are given, so that the store is not idle.
	l.handOn(b, ended, ended.Sub(began))
	for _, w := range b.waiters {
		if w != b.leader {
			w.done <- struct{}{}
		}
	}
	clear(b.waiters)
	*b = batch{waiters: b.waiters[:0], checks: b.checks[:0], parts: b.parts[:0]}
	l.batches.Put(b)
}

// handOn lets waiting callers lead the next calls when a batch has ended.
func (l *lane) handOn(b *batch, now time.Time, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.observe(b, now, took)
	l.unclaim(b)
	if !l.options.noWait {
		l.refuseHeld(b)
	}
	l.begin(now)
}

// observe notes how long a call took. Older calls count less and less.
func (l *lane) observe(b *batch, now time.Time, took time.Duration) {
	l.calls--
	l.moved = now
	l.underWay -= b.weight
	l.spent = l.spent*7/8 + took
	l.decided = l.decided*7/8 + float64(b.weight)
}

// patience returns that of the leader's call, or 0 if some of the waiters must wait for the store.
func (b *batch) patience() time.Duration {
	if slices.ContainsFunc(b.waiters, func(w *waiter) bool { return w.away == nil }) {
		return 0
	}
	return b.leader.patience
}

// settle gives waiters their answers, or the error of their call. If it was the fault of some of them, it returns how
// many are to be asked apart from the others.
func (l *lane) settle(ctx context.Context, waiters []*waiter, decisions []service.Decision, err error) (split int) {
	if err == nil {
		if slices.ContainsFunc(decisions, func(d service.Decision) bool { return isAnswer(d.Err) }) {
			l.noteResponse()
		}
		for _, w := range waiters {
			n := len(w.checks)
			w.decisions, decisions = decisions[:n:n], decisions[n:]
		}
		return 0
	}
	if ctx.Err() == nil && isAnswer(err) {
		l.noteResponse()
	}
	switch {
	case errors.Is(err, service.ErrBusy), errors.Is(err, service.ErrUndecided):
		// Busy is not the fault of a check. Undecided checks may have been counted, and asking
		// again could count them twice.
	case errors.Is(err, service.ErrStaleKey):
		split = sameRulesFirst(waiters) % len(waiters) // 0 if all have the same: all are stale
	default:
		split = len(waiters) / 2
	}
	if split == 0 {
		fail(waiters, err)
	}
	return split
}

// noteResponse notes that the store has answered.
func (l *lane) noteResponse() {
	now := time.Now()
	l.mu.Lock()
	l.heard = now
	l.mu.Unlock()
}

// isAnswer says that a check or a call that has ended in err was answered by a database at work.
func isAnswer(err error) bool {
	return err == nil || !errors.Is(err, service.ErrUndecided) && !isAbsent(err)
}

// isAbsent says that the store had no database to ask. Too many connections or a held bucket are refusals
// by a database at work. A lost connection does not prove that the database is away; the next connect
// decides.
func isAbsent(err error) bool {
	return errors.Is(err, service.ErrAway) || errors.Is(err, service.ErrPaused)
}

func fail(waiters []*waiter, err error) {
	for _, w := range waiters {
		w.err = err
	}
}

// call calls the store. A panic of the store becomes an ErrUndecided of all callers, since
// their checks may have been counted; it does not end the leader's goroutine.
func (l *lane) call(ctx context.Context, b *batch, waiters []*waiter) (decisions []service.Decision, err error) {
	b.checks = b.checks[:0]
	for _, w := range waiters {
		b.checks = append(b.checks, w.checks...)
	}
	began := time.Now()
	defer func() {
		clear(b.checks)
		if r := recover(); r != nil {
			decisions, err = nil, fmt.Errorf("%w: store panicked: %v\n%s", service.ErrUndecided, r, debug.Stack())
		}
		if observe := l.options.observe.Asked; observe != nil {
			observe(Asked{callers: callersOf(waiters), Began: began, Checks: len(b.checks), Decisions: decisions, Err: err})
		}
	}()
	call := service.Call{Checks: b.checks, NoWait: l.options.noWait, Patience: b.patience()}
	return call.Fit(l.store.CheckAll(ctx, call))
}

// callersOf yields the contexts of waiters.
func callersOf(waiters []*waiter) iter.Seq[context.Context] {
	return func(yield func(context.Context) bool) {
		for _, w := range waiters {
			if !yield(w.ctx) {
				return
			}
		}
	}
}

// sameRulesFirst moves the waiters whose checks have the same zones and key rules as the first
// waiter's to the front, keeps the order otherwise, and returns how many they are. Whether a
// key is stale depends on its zone and rule alone, so either all of these are stale or all are
// not. So an edited zone costs a batch a few calls, however many checks it has.
func sameRulesFirst(waiters []*waiter) int {
	first := waiters[0].checks
	var others []*waiter
	n := 0
	for _, w := range waiters {
		if slices.EqualFunc(w.checks, first, haveSameRules) {
			waiters[n] = w
			n++
		} else {
			others = append(others, w)
		}
	}
	copy(waiters[n:], others)
	return n
}

func haveSameRules(c, other service.Check) bool {
	sameZone := func(a, b service.Bucket) bool { return a.ZoneID == b.ZoneID }
	return slices.EqualFunc(c.Buckets, other.Buckets, sameZone) && slices.Equal(c.KeyRules, other.KeyRules)
}
