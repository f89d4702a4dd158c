package service

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"
)

// batch is callers who share a call, made by one of them.
type batch struct {
	leader   *waiter
	waiters  []*waiter
	weight   int
	deadline time.Time
	checks   []Check // of a call; the store's until it returns
}

// lead answers all of a batch, on the goroutine of its leader.
func (l *lane) lead(b *batch) {
	began := time.Now()
	l.decide(b)
	ended := time.Now()
	if !l.options.noWait {
		l.unclaim(b)
	}
	// First, so that the store works again while those who are answered go on.
	l.handOn(b, ended, ended.Sub(began))
	for _, w := range b.waiters {
		if w != b.leader {
			w.done <- struct{}{}
		}
	}
	clear(b.waiters)
	*b = batch{waiters: b.waiters[:0], checks: b.checks[:0]}
	l.spare.Put(b)
}

// handOn lets others lead what has gathered while a batch was under way.
func (l *lane) handOn(b *batch, now time.Time, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.observe(b, took)
	for {
		next := l.next(now)
		if next == nil {
			return
		}
		// Under the mutex: who finds himself out of the queue must find this, too.
		next.leader.done <- struct{}{}
	}
}

// observe remembers how long a call took; older ones count less and less.
func (l *lane) observe(b *batch, took time.Duration) {
	l.calls--
	l.underWay -= b.weight
	l.spent = l.spent*7/8 + took
	l.decided = l.decided*7/8 + float64(b.weight)
}

// decide finds the answer of every waiter of a batch.
func (l *lane) decide(b *batch) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(b.leader.ctx), b.deadline)
	defer cancel()
	l.ask(ctx, b, b.waiters)
}

// ask finds the answers of some waiters by one call of the store. If that fails by
// the fault of single checks, nothing was decided, and they are asked apart, in
// smaller batches and under the same deadline, until the fault stands alone.
func (l *lane) ask(ctx context.Context, b *batch, waiters []*waiter) {
	decisions, err := l.call(ctx, b, waiters)
	if err == nil {
		for _, w := range waiters {
			n := len(w.checks)
			w.decisions, decisions = decisions[:n:n], decisions[n:]
		}
		return
	}
	split := len(waiters) / 2
	switch {
	case errors.Is(err, ErrBusy), errors.Is(err, ErrUndecided):
		// No check is to blame, and what may have been counted is not asked again.
		split = 0
	case errors.Is(err, ErrStaleKey):
		split = alikeFirst(waiters) % len(waiters) // if all are alike, all are stale
	}
	if split == 0 {
		fail(waiters, err)
		return
	}
	for _, part := range [][]*waiter{waiters[:split], waiters[split:]} {
		if ctx.Err() != nil {
			fail(part, fmt.Errorf("%w: no time left to ask apart from a check that failed", ErrBusy))
			continue
		}
		l.ask(ctx, b, part)
	}
}

func fail(waiters []*waiter, err error) {
	for _, w := range waiters {
		w.err = err
	}
}

// call calls the store. A panic is told to the callers, who may have been
// counted, and does not end the one who leads.
func (l *lane) call(ctx context.Context, b *batch, waiters []*waiter) (decisions []Decision, err error) {
	b.checks = b.checks[:0]
	for _, w := range waiters {
		b.checks = append(b.checks, w.checks...)
	}
	for i := range b.checks {
		b.checks[i].NoWait = l.options.noWait
	}
	defer func() {
		clear(b.checks)
		if r := recover(); r != nil {
			decisions, err = nil, fmt.Errorf("%w: store panicked: %v\n%s", ErrUndecided, r, debug.Stack())
		}
	}()
	decisions, err = l.store.CheckAll(ctx, b.checks)
	if err == nil && len(decisions) != len(b.checks) {
		err = fmt.Errorf("%w: store answered %d of %d checks", ErrUndecided, len(decisions), len(b.checks))
	}
	return decisions, err
}

// alikeFirst brings the waiters whose checks have the same zones and key rules
// as the first one's to the front, otherwise in order, and returns how many they
// are. A key is stale by its zone and rule, so they are all stale or none is: an
// edited zone costs a batch a few calls, however many checks it holds.
func alikeFirst(waiters []*waiter) int {
	first := waiters[0].checks
	var others []*waiter
	n := 0
	for _, w := range waiters {
		if slices.EqualFunc(w.checks, first, Check.staleAs) {
			waiters[n] = w
			n++
		} else {
			others = append(others, w)
		}
	}
	copy(waiters[n:], others)
	return n
}

func (c Check) staleAs(other Check) bool {
	sameZone := func(a, b Bucket) bool { return a.ZoneID == b.ZoneID }
	return slices.EqualFunc(c.Buckets, other.Buckets, sameZone) && slices.Equal(c.KeyRules, other.KeyRules)
}
