package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"velocityd/bench/round"
)

// patience is how long after the round's end an answer is waited for, pause how
// long a caller that got none waits before it asks again.
const (
	patience = 20 * time.Second
	pause    = 10 * time.Millisecond
)

// errBusy is an answer without a decision, for want of capacity.
var errBusy = errors.New("busy")

// bucket is one key to ask for. The key is valid until the next draw.
type bucket struct {
	zone int
	key  []byte
}

// caller is one connection. Nobody else uses it at the same time.
type caller interface {
	// ask returns whether the check was blocked, and how many calls had to be
	// repeated. After an error other than errBusy the caller must not be used.
	ask(ctx context.Context, buckets []bucket) (blocked bool, retried int, err error)
	close()
}

// dialer makes callers for one round.
type dialer interface {
	dial(ctx context.Context, until time.Time) (caller, error)
}

// load is one round as it runs.
type load struct {
	dialer     dialer
	order      round.Order
	until      time.Time
	latencies  round.Histogram
	admitted   atomic.Int64
	blocked    atomic.Int64
	busy       atomic.Int64
	errors     atomic.Int64
	retried    atomic.Int64
	firstError atomic.Pointer[string]
}

// ask carries out the order. All callers are connected before the clock starts;
// each waits for its answer before it asks again. It fails if a caller cannot
// connect; what happens afterwards is counted.
func ask(ctx context.Context, order round.Order) (round.Summary, error) {
	d, err := newDialer(order)
	if err != nil {
		return round.Summary{}, err
	}
	l := &load{dialer: d, order: order}
	length := time.Duration(order.Seconds * float64(time.Second))
	callers, err := l.connect(ctx, time.Now().Add(length+2*patience))
	if err != nil {
		return round.Summary{}, err
	}
	began := time.Now()
	l.until = began.Add(length)
	ctx, cancel := context.WithDeadline(ctx, l.until.Add(patience))
	defer cancel()
	var group sync.WaitGroup
	for i, c := range callers {
		group.Go(func() { l.loop(ctx, c, newDraws(order, i)) })
	}
	group.Wait()
	return l.summary(time.Since(began)), nil
}

func (l *load) connect(ctx context.Context, until time.Time) ([]caller, error) {
	callers := make([]caller, 0, l.order.Callers)
	for range l.order.Callers {
		c, err := l.dialer.dial(ctx, until)
		if err != nil {
			for _, c := range callers {
				c.close()
			}
			return nil, fmt.Errorf("connect caller %d: %w", len(callers)+1, err)
		}
		callers = append(callers, c)
	}
	return callers, nil
}

// loop asks until the round ends. A caller that lost its connection makes a new
// one.
func (l *load) loop(ctx context.Context, c caller, draws *draws) {
	defer func() {
		if c != nil {
			c.close()
		}
	}()
	for asked := time.Now(); asked.Before(l.until); {
		if c == nil {
			var err error
			if c, err = l.dialer.dial(ctx, l.until.Add(patience)); err != nil {
				c = nil
				l.fail(err)
				asked = wait(ctx)
				continue
			}
		}
		blocked, retried, err := c.ask(ctx, draws.next())
		answered := time.Now()
		l.retried.Add(int64(retried))
		switch {
		case err == nil:
			l.note(blocked, answered.Sub(asked))
		case errors.Is(err, errBusy):
			l.busy.Add(1)
			answered = wait(ctx)
		default:
			l.fail(err)
			c.close()
			c = nil
			answered = wait(ctx)
		}
		asked = answered
	}
}

// wait keeps a caller that is refused from asking as fast as it is refused.
func wait(ctx context.Context) time.Time {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
	return time.Now()
}

func (l *load) note(blocked bool, latency time.Duration) {
	l.latencies.Record(latency)
	if blocked {
		l.blocked.Add(1)
	} else {
		l.admitted.Add(1)
	}
}

func (l *load) fail(err error) {
	l.errors.Add(1)
	text := err.Error()
	l.firstError.CompareAndSwap(nil, &text)
}

func (l *load) summary(took time.Duration) round.Summary {
	s := round.Summary{
		Admitted: l.admitted.Load(), Blocked: l.blocked.Load(), Busy: l.busy.Load(),
		Errors: l.errors.Load(), Retried: l.retried.Load(), Seconds: took.Seconds(),
		P50: l.latencies.Quantile(0.5), P99: l.latencies.Quantile(0.99), Max: l.latencies.Quantile(1),
	}
	if text := l.firstError.Load(); text != nil {
		s.FirstError = *text
	}
	return s
}

// newDialer chooses the language.
func newDialer(order round.Order) (dialer, error) {
	switch order.Protocol {
	case round.Textbook, round.Procedure:
		return newSQLDialer(order)
	case round.Service:
		return webDialer{address: order.Address, path: "/v1/check", language: serviceLanguage{}}, nil
	case round.Envoy:
		return webDialer{address: order.Address, path: "/json", language: envoyLanguage{}}, nil
	}
	return nil, fmt.Errorf("no such protocol: %q", order.Protocol)
}
