package main

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"velocityd/bench/workload"
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
// capacity, and how often the call had to be repeated.
type answer struct{ admitted, blocked, busy, retried int64 }

// decided is the answer to a lone check.
func decided(blocked bool) answer {
	if blocked {
		return answer{blocked: 1}
	}
	return answer{admitted: 1}
}

// caller is one connection, for one goroutine.
type caller interface {
	// ask asks for all buckets in one call. After an error the caller must not be used.
	ask(ctx context.Context, buckets []bucket) (answer, error)
	close()
}

// dial makes a caller for one round.
type dial func(ctx context.Context, until time.Time) (caller, error)

// load is one running round.
type load struct {
	dial         dial
	order        workload.Order
	began, until time.Time
	lock         sync.Mutex // guards the fields below
	sum          workload.Summary
	latencies    []time.Duration
}

// ask carries out the order. All callers are connected before the clock starts; each waits for its answer
// before it asks again. It fails if a caller cannot connect; later faults are counted.
func ask(ctx context.Context, order workload.Order) (workload.Summary, error) {
	d, err := dialOf(order)
	if err != nil {
		return workload.Summary{}, err
	}
	l := &load{dial: d, order: order}
	length := time.Duration(order.Seconds * float64(time.Second))
	callers, err := l.connect(ctx, time.Now().Add(length+2*patience))
	if err != nil {
		return workload.Summary{}, err
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
	l.sum.Seconds = time.Since(l.began).Seconds()
	l.sum.Over(l.latencies)
	return l.sum, nil
}

func (l *load) connect(ctx context.Context, until time.Time) ([]caller, error) {
	callers := make([]caller, 0, l.order.Callers)
	for range l.order.Callers {
		c, err := l.dial(ctx, until)
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
			if c, err = l.dial(ctx, l.until.Add(patience)); err != nil {
				c = nil
				l.note(answer{}, 0, err)
				wait(ctx, pause)
				continue
			}
		}
		got, err := c.ask(ctx, draws.next())
		l.note(got, time.Since(asked), err)
		if err != nil {
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

// note adds the answer to one call, or the error of one without an answer.
func (l *load) note(got answer, latency time.Duration, err error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if got.admitted+got.blocked > 0 {
		l.latencies = append(l.latencies, latency)
	}
	l.sum.Admitted += got.admitted
	l.sum.Blocked += got.blocked
	l.sum.Busy += got.busy
	l.sum.Retried += got.retried
	if err != nil {
		l.sum.Errors++
		l.sum.FirstError = cmp.Or(l.sum.FirstError, err.Error())
	}
}

// dialOf returns how to dial by the order's protocol.
func dialOf(order workload.Order) (dial, error) {
	switch order.Protocol {
	case workload.Procedure, workload.Recording:
		return dialSQL(order)
	case workload.Service:
		return dialWeb(order.Address, "/v1/check", serviceLanguage{}), nil
	case workload.Client:
		return dialClient(order.Address)
	case workload.Coalesced:
		return dialClient(order.Address, client.WithCoalescing())
	case workload.Envoy:
		return dialWeb(order.Address, "/json", envoyLanguage{}), nil
	case workload.RPC:
		return (&rpcConnections{address: order.Address}).dial, nil
	}
	return nil, fmt.Errorf("unknown protocol %q", order.Protocol)
}
