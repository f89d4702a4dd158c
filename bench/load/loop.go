package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"velocityd/bench/round"
	"velocityd/client"
)

// patience bounds the generator's wait for an answer after the round's end. After a call without an answer
// a caller waits for pause before it asks again.
const (
	patience = 20 * time.Second
	pause    = 10 * time.Millisecond
)

// bucket is one key to ask for. The key is valid until the next draw.
type bucket struct {
	zone int
	key  []byte
}

// answer says how many checks of one call were allowed, blocked, and refused for want of
// capacity.
type answer struct{ admitted, blocked, busy int64 }

// decided is the answer to a lone check.
func decided(blocked bool) answer {
	if blocked {
		return answer{blocked: 1}
	}
	return answer{admitted: 1}
}

// caller is one connection, for one goroutine.
type caller interface {
	// ask asks for all buckets in one call, and also returns how often the call had
	// to be repeated. After an error the caller must not be used.
	ask(ctx context.Context, buckets []bucket) (got answer, retried int, err error)
	close()
}

// dialer makes callers for one round.
type dialer interface {
	dial(ctx context.Context, until time.Time) (caller, error)
}

// load is one running round.
type load struct {
	dialer       dialer
	order        round.Order
	began, until time.Time
	latencies    round.Latencies
	admitted     atomic.Int64
	blocked      atomic.Int64
	busy         atomic.Int64
	errors       atomic.Int64
	retried      atomic.Int64
	firstError   atomic.Pointer[string]
}

// ask carries out the order. All callers are connected before the clock starts; each waits for its answer
// before it asks again. It fails if a caller cannot connect; later faults are counted.
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
	l.began = time.Now()
	l.until = l.began.Add(length)
	ctx, cancel := context.WithDeadline(ctx, l.until.Add(patience))
	defer cancel()
	var group sync.WaitGroup
	for i, c := range callers {
		group.Go(func() { l.loop(ctx, c, i) })
	}
	group.Wait()
	return l.summary(time.Since(l.began)), nil
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

// loop asks until the round ends, and at least once unless the order has a pace. A caller that lost its
// connection makes a new one.
func (l *load) loop(ctx context.Context, c caller, callerNo int) {
	defer func() {
		if c != nil {
			c.close()
		}
	}()
	draws := newDraws(l.order, callerNo)
	for n := 0; ; n++ {
		asked := l.turn(ctx, callerNo, n)
		if !asked.Before(l.until) && (n > 0 || l.order.Every > 0) {
			return
		}
		if c == nil {
			var err error
			if c, err = l.dialer.dial(ctx, l.until.Add(patience)); err != nil {
				c = nil
				l.fail(err)
				wait(ctx, pause)
				continue
			}
		}
		got, retried, err := c.ask(ctx, draws.next())
		l.note(got, time.Since(asked))
		l.retried.Add(int64(retried))
		if err != nil {
			l.fail(err)
			c.close()
			c = nil
		}
		if got.admitted+got.blocked == 0 { // a refused caller waits before it asks again
			wait(ctx, pause)
		}
	}
}

// turn waits until a caller may ask its n-th question, and returns the time.
func (l *load) turn(ctx context.Context, callerNo, n int) time.Time {
	if l.order.Every > 0 {
		turns := float64(n) + float64(callerNo)/float64(l.order.Callers)
		due := l.began.Add(time.Duration(turns * l.order.Every * float64(time.Second)))
		if due.After(l.until) {
			return due
		}
		wait(ctx, time.Until(due))
	}
	return time.Now()
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (l *load) note(got answer, latency time.Duration) {
	if got.admitted+got.blocked > 0 {
		l.latencies.Record(latency)
	}
	l.admitted.Add(got.admitted)
	l.blocked.Add(got.blocked)
	l.busy.Add(got.busy)
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
	}
	l.latencies.Into(&s)
	if text := l.firstError.Load(); text != nil {
		s.FirstError = *text
	}
	return s
}

// newDialer returns the dialer for the order's protocol.
func newDialer(order round.Order) (dialer, error) {
	switch order.Protocol {
	case round.Procedure, round.Recording:
		return newSQLDialer(order)
	case round.Service:
		return webDialer{address: order.Address, path: "/v1/check", language: serviceLanguage{}}, nil
	case round.Client:
		return newClientDialer(order.Address)
	case round.Coalesced:
		return newClientDialer(order.Address, client.WithCoalescing())
	case round.Envoy:
		return webDialer{address: order.Address, path: "/json", language: envoyLanguage{}}, nil
	case round.RPC:
		return &rpcDialer{address: order.Address}, nil
	}
	return nil, fmt.Errorf("unknown protocol %q", order.Protocol)
}
