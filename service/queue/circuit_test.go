package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/queue"
)

// circuitTest is a Coalescer with its circuit watched in a bubble, whose time passes when all wait.
type circuitTest struct {
	*queue.Coalescer
	began   time.Time
	mu      sync.Mutex
	probe   error // the result of a test of the store
	hangs   time.Duration
	inParts bool     // the store decides in parts
	changes []string // when it opened and closed, and was tested
}

// find has the tests of the store find err.
func (c *circuitTest) find(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probe = err
}

// hang has the tests of the store take so long.
func (c *circuitTest) hang(hangs time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hangs = hangs
}

// divide has the store decide in parts.
func (c *circuitTest) divide() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inParts = true
}

func (c *circuitTest) noted(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes = append(c.changes, fmt.Sprint(what, " ", time.Since(c.began)))
}

// wantChanges compares what happened to the circuit since the last call.
func (c *circuitTest) wantChanges(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.changes, want) {
		t.Errorf("after %v: got %q, want %q", time.Since(c.began), c.changes, want)
	}
	c.changes = nil
}

// opened returns when the circuit has opened and closed since the last look.
func (c *circuitTest) opened() (changes []string) {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	changes = slices.DeleteFunc(c.changes, func(change string) bool { return strings.HasPrefix(change, "tested ") })
	c.changes = nil
	return changes
}

// wantClosed holds that the circuit has not opened since the last call, however often it was tested.
func (c *circuitTest) wantClosed(t *testing.T) {
	t.Helper()
	if changes := c.opened(); len(changes) > 0 {
		t.Errorf("after %v: %q", time.Since(c.began), changes)
	}
}

// watched runs a test with a Coalescer in front of a store, whose circuit is watched. A silence that is not nil takes
// the place of the Coalescer's.
func watched(
	t *testing.T, store service.CheckStore, o queue.CoalescerOptions, silence func() time.Duration,
	test func(c *circuitTest),
) {
	t.Helper()
	c := &circuitTest{began: time.Now()}
	o.ShardOf = func(service.Bucket) (shard, shards int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.inParts {
			return 0, 2
		}
		return 0, 1
	}
	o.Circuit = queue.CircuitOptions{
		Probe: func(ctx context.Context) error {
			c.noted("tested")
			c.mu.Lock()
			finds, hangs := c.probe, c.hangs
			c.mu.Unlock()
			select {
			case <-time.After(hangs): // by the bubble's clock
				return finds
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		OnChange: func(cause error) {
			if cause == nil {
				c.noted("closed")
			} else {
				c.noted("opened")
			}
		},
	}
	c.Coalescer = queue.NewCoalescer(store, o)
	if silence != nil {
		c.Circuit.SilentFor(silence)
	}
	remember(c.Coalescer)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Circuit.Watch(ctx)
	}()
	test(c)
	stop()
	<-done // a goroutine that is left fails the bubble
	if err := c.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
}

// straight leaves out the claims about lanes.
func straight() queue.CoalescerOptions { return queue.CoalescerOptions{IsStraight: true} }

// watchedInBubble is watched for a gated store.
func watchedInBubble(t *testing.T, o queue.CoalescerOptions, test func(t *testing.T, c *circuitTest, g *gated)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		watched(t, g, o, nil, func(c *circuitTest) { test(t, c, g) })
	})
}

func TestCircuitOpensAtOnceAndClosesByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := failing(service.ErrAway)
		watched(t, store, straight(), nil, func(c *circuitTest) {
			c.find(service.ErrAway)
			time.Sleep(time.Minute)
			c.wantChanges(t)
			for range 100 {
				if d, err := askOne(t.Context(), c, in("allow")); err != nil || !d.Degraded {
					t.Fatalf("got %+v, %v", d, err)
				}
			}
			if store.calls != 1 {
				t.Errorf("the store was asked %d times, want once", store.calls)
			}
			c.wantChanges(t, "opened 1m0s", "tested 1m0s")
			time.Sleep(2500 * time.Millisecond)
			c.wantChanges(t, "tested 1m1s", "tested 1m2s")
			store.answer = admit
			c.find(nil)
			if d, err := askOne(t.Context(), c, in("block")); err != nil || !d.Blocked || !d.Degraded {
				t.Errorf("before the test: %+v, %v", d, err)
			}
			time.Sleep(500 * time.Millisecond)
			c.wantChanges(t, "tested 1m3s", "closed 1m3s")
			if d, err := askOne(t.Context(), c, in("block")); err != nil || d.Degraded || d.TxnID() != 1 {
				t.Errorf("after the test: %+v, %v", d, err)
			}
		})
	})
}

func TestStorePassingOnlyTestsIsTestedEverySecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		watched(t, failing(service.ErrUnfit), straight(), nil, func(c *circuitTest) {
			time.Sleep(time.Minute)
			for range 40 {
				if d, err := askOne(t.Context(), c, in("allow")); err != nil || !d.Degraded {
					t.Fatalf("got %+v, %v", d, err)
				}
				time.Sleep(99 * time.Millisecond) // never at the instant of a test
			}
			c.wantChanges(t, "opened 1m0s", "tested 1m0s", "closed 1m0s",
				"opened 1m0.099s", "tested 1m1.099s", "closed 1m1.099s", "opened 1m1.188s", "tested 1m2.188s", "closed 1m2.188s",
				"opened 1m2.277s", "tested 1m3.277s", "closed 1m3.277s", "opened 1m3.366s")
		})
	})
}

func TestConsecutiveLostAnswersOpenTheCircuit(t *testing.T) {
	t.Parallel()
	lost, paused := fmt.Errorf("check: %w", service.ErrUndecided), fmt.Errorf("check: %w", service.ErrPaused)
	for name, test := range map[string]struct {
		ends  []error // of checks that are asked every 100 ms
		opens bool
	}{
		"one statement was ended":      {[]error{lost, nil, nil, nil, nil}, false},
		"a batch of many was ended":    {[]error{lost, lost, lost, nil, lost, lost, lost, nil}, false},
		"an unknown zone is an answer": {[]error{lost, lost, lost, service.ErrNotFound, lost, lost}, false},
		"nothing comes any more":       {[]error{lost, lost, lost, lost}, true},
		"being busy is no answer":      {[]error{lost, service.ErrBusy, service.ErrBusy, lost}, true},
		"a pause ends":                 {[]error{paused, nil, nil, nil}, false},
		"a pause lasts":                {[]error{paused, paused, paused}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := admitting()
				watched(t, store, straight(), nil, func(c *circuitTest) {
					c.find(service.ErrAway)
					for _, end := range test.ends {
						store.answer = func(ctx context.Context, call service.Call) ([]service.Decision, error) {
							if end == nil {
								return admit(ctx, call)
							}
							return nil, end
						}
						if _, err := askOne(t.Context(), c, in("allow")); !errors.Is(err, end) {
							t.Errorf("got %v, want %v: it may have been recorded", err, end)
						}
						time.Sleep(100 * time.Millisecond)
					}
					if d, _ := askOne(t.Context(), c, in("allow")); d.Degraded != test.opens {
						t.Errorf("then %+v, want degraded %t", d, test.opens)
					}
				})
			})
		})
	}
}

// TestEarlierTestDoesNotCloseOpenedCircuit passes, and no later one does.
func TestEarlierTestDoesNotCloseOpenedCircuit(t *testing.T) {
	t.Parallel()
	for _, calm := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			silent := func() time.Duration { return min(time.Second, max(0, time.Since(began)-calm)) }
			watched(t, failing(service.ErrAway), straight(), silent, func(c *circuitTest) {
				c.hang(50 * time.Millisecond)
				time.Sleep(calm + 130*time.Millisecond) // the first test is under way
				c.find(service.ErrAway)
				if _, err := askOne(t.Context(), c, in("allow")); err != nil {
					t.Error(err)
				}
				time.Sleep(3 * time.Second)
				if changes := c.opened(); len(changes) != 1 {
					t.Errorf("after %s of calm: %q", calm, changes)
				}
			})
		})
	}
}
