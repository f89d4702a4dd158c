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

// circuitTest is a Fallback with its Watch in a bubble, whose time passes when all wait.
type circuitTest struct {
	*queue.Fallback
	began   time.Time
	mu      sync.Mutex
	probe   error // what a test of the store finds
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

// watched runs a test with a watched Fallback. silence may be nil.
func watched(t *testing.T, store service.CheckStore, silence func() time.Duration, test func(c *circuitTest)) {
	t.Helper()
	c := &circuitTest{began: time.Now()}
	c.Fallback = queue.NewFallback(store, queue.FallbackOptions{
		Silence: silence,
		InParts: func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.inParts
		},
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
	})
	remember(c.Fallback)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Watch(ctx)
	}()
	test(c)
	stop()
	<-done // a goroutine that is left fails the bubble
}

func TestCircuitOpensAtOnceAndClosesByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := failing(service.ErrAway)
		watched(t, store, nil, func(c *circuitTest) {
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

func TestStoreThatPassesEachTestAndFailsEachCheckIsTestedOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		watched(t, failing(service.ErrUnfit), nil, func(c *circuitTest) {
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

func TestLostAnswersOpenTheCircuitIfNoneComesInBetween(t *testing.T) {
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
				watched(t, store, nil, func(c *circuitTest) {
					c.find(service.ErrAway)
					for _, end := range test.ends {
						store.answer = func(ctx context.Context, call service.Call) ([]service.Decision, error) {
							checks := call.Checks
							if end == nil {
								return admit(ctx, service.Call{Checks: checks})
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

func TestWhoeverWaitsForASilentStoreIsAnsweredWithoutIt(t *testing.T) {
	t.Parallel()
	inBubble(t, queue.CoalescerOptions{Lanes: 1, Timeout: 3 * time.Second}, func(t *testing.T, coalescer *queue.Coalescer, g *gated) {
		watched(t, coalescer, coalescer.Silence, func(c *circuitTest) {
			c.find(service.ErrAway)
			time.Sleep(100 * time.Millisecond) // the silence is not measured from a look at it
			sent := askIn(t, c, "allow", "sent")
			<-g.began
			waiting := map[string]<-chan answer{"allow": askIn(t, c, "allow", "a"), "block": askIn(t, c, "block", "b")}
			patient := askIn(t, c, "error", "patient")
			time.Sleep(queue.DefaultDegradedAfter)
			c.wantChanges(t, "tested 350ms", "opened 350ms")
			for name, got := range waiting {
				if a := <-got; a.err != nil || !a.decision.Degraded || a.decision.Blocked != (name == "block") ||
					time.Since(c.began) != 350*time.Millisecond {
					t.Errorf("%s: %+v after %v", name, a, time.Since(c.began))
				}
			}
			if a := <-askIn(t, c, "allow", "later"); a.err != nil || !a.decision.Degraded {
				t.Errorf("later: %+v", a)
			}
			g.proceed <- func(ctx context.Context, _ service.Call) ([]service.Decision, error) {
				<-ctx.Done()
				return nil, service.ErrUndecided
			}
			if a := <-sent; !errors.Is(a.err, service.ErrUndecided) || a.decision.Degraded {
				t.Errorf("a check that was sent is not undecided: %+v", a)
			}
			// Those that left are not asked; the caller who decides by himself is.
			g.wantBatch(t, admit, "patient")
			if a := <-patient; a.err != nil || a.decision.Degraded || a.decision.TxnID() == 0 {
				t.Errorf("on_failure error: %+v", a)
			}
		})
	})
}

// askIn asks in one of awayZones for a key, in a separate goroutine, and returns when all wait.
func askIn(t *testing.T, store service.CheckStore, zone, key string) <-chan answer {
	t.Helper()
	question := in(zone)
	question.Buckets[0].Key = key
	answers := make(chan answer, 1)
	go func() {
		d, err := askOne(t.Context(), store, question)
		answers <- answer{key, d, err}
	}()
	synctest.Wait()
	return answers
}

func TestCheckThatWasSentGetsItsAnswerAfterTheCircuitHasOpened(t *testing.T) {
	t.Parallel()
	inBubble(t, queue.CoalescerOptions{Lanes: 1, Timeout: 3 * time.Second}, func(t *testing.T, coalescer *queue.Coalescer, g *gated) {
		watched(t, coalescer, coalescer.Silence, func(c *circuitTest) {
			first := askIn(t, c, "allow", "first")
			<-g.began
			followers := []<-chan answer{askIn(t, c, "allow", "leads"), askIn(t, c, "allow", "follows")}
			g.proceed <- admit
			<-first
			<-g.began
			time.Sleep(time.Second)
			synctest.Wait()
			g.proceed <- admit
			for _, got := range followers {
				if a := <-got; a.err != nil || a.decision.Degraded || a.decision.TxnID() == 0 {
					t.Errorf("got %+v, want the store's answer", a)
				}
			}
		})
	})
}

func TestOverloadAndHeldBucketsAreNoSilence(t *testing.T) {
	t.Parallel()
	slowly := func(ctx context.Context, call service.Call) ([]service.Decision, error) {
		checks := call.Checks
		time.Sleep(200 * time.Millisecond)
		return admit(ctx, service.Call{Checks: checks})
	}
	o := queue.CoalescerOptions{Lanes: 1, MaxBatch: 1, Timeout: 3 * time.Second}
	inBubble(t, o, func(t *testing.T, coalescer *queue.Coalescer, g *gated) {
		watched(t, coalescer, coalescer.Silence, func(c *circuitTest) {
			var answers []<-chan answer
			for i := range 10 { // 2 s of work
				answers = append(answers, askIn(t, c, "allow", fmt.Sprint(i)))
			}
			for i := range answers {
				g.wantBatch(t, slowly, fmt.Sprint(i))
			}
			for i, got := range answers {
				if a := <-got; a.err != nil || a.decision.Degraded {
					t.Errorf("check %d of an overloaded store: %+v", i, a)
				}
			}
			held := askIn(t, c, "allow", "held")
			for range 2 {
				g.wantBatch(t, func(context.Context, service.Call) ([]service.Decision, error) {
					return []service.Decision{{Err: service.ErrHeld}}, nil
				}, "held")
			}
			g.wantBatch(t, func(context.Context, service.Call) ([]service.Decision, error) {
				time.Sleep(2 * time.Second)
				return nil, fmt.Errorf("lock wait: %w", service.ErrBusy)
			}, "held")
			if a := <-held; !errors.Is(a.err, service.ErrBusy) || errors.Is(a.err, service.ErrAway) {
				t.Errorf("a held bucket: %+v", a)
			}
			c.wantClosed(t)
		})
	})
}

// TestADatabaseThatRefusesOverlappingCallsInTimeIsNotSilent always has a call under way.
func TestADatabaseThatRefusesOverlappingCallsInTimeIsNotSilent(t *testing.T) {
	t.Parallel()
	full := failWith(fmt.Errorf("%w: too many connections", service.ErrBusy))
	o := queue.CoalescerOptions{Lanes: 2, MaxBatch: 1, Queue: 1, Timeout: 3 * time.Second}
	inBubble(t, o, func(t *testing.T, coalescer *queue.Coalescer, g *gated) {
		watched(t, coalescer, coalescer.Silence, func(c *circuitTest) {
			answers := []<-chan answer{askIn(t, c, "allow", "first")}
			<-g.began
			for i := 0; i < 10 && !t.Failed(); i++ {
				answers = append(answers, askIn(t, c, "allow", fmt.Sprint(i)))
				<-g.began // beside the other one
				time.Sleep(100 * time.Millisecond)
				g.proceed <- full
				c.wantClosed(t)
			}
			g.proceed <- full
			for _, got := range answers {
				if a := <-got; !errors.Is(a.err, service.ErrBusy) || errors.Is(a.err, service.ErrAway) {
					t.Errorf("got %+v, want busy", a)
				}
			}
		})
	})
}

// TestAStoreThatPassesATestIsNotAway has the only call wait for a bucket that is stuck, which it does
// not expect: the other checks wait with it, and are decided.
func TestAStoreThatPassesATestIsNotAway(t *testing.T) {
	t.Parallel()
	inBubble(t, queue.CoalescerOptions{Lanes: 1, Timeout: 3 * time.Second}, func(t *testing.T, coalescer *queue.Coalescer, g *gated) {
		watched(t, coalescer, coalescer.Silence, func(c *circuitTest) {
			stuck := askIn(t, c, "allow", "stuck")
			<-g.began
			other := askIn(t, c, "allow", "other")
			time.Sleep(2 * time.Second)
			c.wantClosed(t)
			g.proceed <- failWith(fmt.Errorf("lock wait: %w", service.ErrBusy))
			if a := <-stuck; !errors.Is(a.err, service.ErrBusy) {
				t.Errorf("what is stuck: %+v", a)
			}
			g.wantBatch(t, admit, "other")
			if a := <-other; a.err != nil || a.decision.Degraded {
				t.Errorf("the other one: %+v", a)
			}
			c.wantClosed(t)
		})
	})
}

// TestAStoreWhoseTestIsNotAnsweredEitherIsAwayInTime has the test hang as the calls do.
func TestAStoreWhoseTestIsNotAnsweredEitherIsAwayInTime(t *testing.T) {
	t.Parallel()
	inBubble(t, queue.CoalescerOptions{Lanes: 1, Timeout: 3 * time.Second}, func(t *testing.T, coalescer *queue.Coalescer, g *gated) {
		watched(t, coalescer, coalescer.Silence, func(c *circuitTest) {
			c.hang(2 * time.Second)
			sent := askIn(t, c, "allow", "sent")
			<-g.began
			time.Sleep(1250 * time.Millisecond)
			c.wantChanges(t, "tested 250ms", "opened 1.25s")
			g.proceed <- admit
			if a := <-sent; a.err != nil || a.decision.Degraded {
				t.Errorf("got %+v", a)
			}
			c.hang(0)
			time.Sleep(3 * time.Second)
			c.wantChanges(t, "tested 2.25s", "closed 2.25s")
		})
	})
}

// TestAStoreThatHangsInItsCommitsIsAwayThoughItPassesTests loses what was sent to it, twice.
func TestAStoreThatHangsInItsCommitsIsAwayThoughItPassesTests(t *testing.T) {
	t.Parallel()
	const deadline = 5 * time.Second
	inBubble(t, queue.CoalescerOptions{Lanes: 1, Timeout: deadline}, func(t *testing.T, coalescer *queue.Coalescer, g *gated) {
		watched(t, coalescer, coalescer.Silence, func(c *circuitTest) {
			const opens = 2250 * time.Millisecond // no stuck bucket explains a longer silence
			for range 2 {
				c.wantClosed(t)
				began := time.Now()
				sent := askIn(t, c, "allow", "sent")
				<-g.began
				waiting := askIn(t, c, "allow", "waiting")
				if a := <-waiting; a.err != nil || !a.decision.Degraded || time.Since(began) != opens {
					t.Errorf("after %s: %+v, %v", time.Since(began), a.decision, a.err)
				}
				time.Sleep(deadline - opens)
				if changes := c.opened(); len(changes) != 1 {
					t.Errorf("while the calls are unanswered: %q", changes)
				}
				g.proceed <- failWith(service.ErrUndecided)
				if a := <-sent; !errors.Is(a.err, service.ErrUndecided) {
					t.Errorf("a check that was sent: %+v", a)
				}
				time.Sleep(1500 * time.Millisecond)
				if changes := c.opened(); len(changes) != 1 || !strings.HasPrefix(changes[0], "closed ") {
					t.Errorf("after the calls have ended: %q", changes)
				}
			}
		})
	})
}

// TestAStoreThatGivesUpItsLockWaitsIsNotAway has the store say every two seconds that a lock was waited
// for too long, in the midst of its calls, and answer its tests late. Once it is taken for silent for a
// while: that ends with the next word that it says, and does not come again.
func TestAStoreThatGivesUpItsLockWaitsIsNotAway(t *testing.T) {
	t.Parallel()
	const between, deadline = 2 * time.Second, time.Minute
	synctest.Test(t, func(t *testing.T) {
		coalescer := queue.NewCoalescer(storeFunc(func(ctx context.Context, _ string, _ service.Call) ([]service.Decision, error) {
			return hangs(ctx)
		}), queue.CoalescerOptions{Lanes: 1, Timeout: deadline})
		began := time.Now()
		said := func() time.Duration { return min(coalescer.Silence(), time.Since(began)%between) }
		watched(t, coalescer, said, func(c *circuitTest) {
			c.hang(900 * time.Millisecond)
			answers := []<-chan answer{askIn(t, c, "allow", "sent"), askIn(t, c, "allow", "waits")}
			time.Sleep(20 * time.Second)
			c.wantClosed(t)
			c.find(service.ErrAway)
			time.Sleep(between)
			c.find(nil)
			c.hang(0)
			time.Sleep(20 * time.Second)
			if changes := c.opened(); len(changes) != 2 {
				t.Errorf("after one failed test: %q, want that it opened and closed once", changes)
			}
			for _, got := range answers {
				<-got
			}
		})
		_ = coalescer.Close(t.Context())
	})
}

// TestASilentPartOfAStoreIsNotAwayAsAWhole has a part hang whose call nobody else's answer ends,
// and tests that wait for that part, too, before they pass.
func TestASilentPartOfAStoreIsNotAwayAsAWhole(t *testing.T) {
	t.Parallel()
	inBubble(t, queue.CoalescerOptions{Lanes: 1, Timeout: 20 * time.Second}, func(t *testing.T, coalescer *queue.Coalescer, g *gated) {
		watched(t, coalescer, coalescer.Silence, func(c *circuitTest) {
			c.divide()
			c.hang(time.Second)
			sent := askIn(t, c, "allow", "sent")
			<-g.began
			time.Sleep(10 * time.Second)
			c.wantClosed(t)
			g.proceed <- failWith(fmt.Errorf("a part is away: %w", service.ErrBusy))
			if a := <-sent; !errors.Is(a.err, service.ErrBusy) {
				t.Errorf("got %+v, want what the part answered", a)
			}
		})
	})
}

// TestAStoreInPartsIsAwayOnceATestFailsInItsSilence has the test hang as the call does, and fail.
func TestAStoreInPartsIsAwayOnceATestFailsInItsSilence(t *testing.T) {
	t.Parallel()
	inBubble(t, queue.CoalescerOptions{Lanes: 1, Timeout: 20 * time.Second}, func(t *testing.T, coalescer *queue.Coalescer, g *gated) {
		watched(t, coalescer, coalescer.Silence, func(c *circuitTest) {
			c.divide()
			c.hang(2 * time.Second)
			c.find(service.ErrAway)
			sent := askIn(t, c, "allow", "sent")
			<-g.began
			waiting := askIn(t, c, "allow", "waiting")
			if a := <-waiting; a.err != nil || !a.decision.Degraded {
				t.Errorf("got %+v, want an answer without the store", a)
			}
			c.wantChanges(t, "tested 250ms", "opened 2.25s")
			g.proceed <- admit
			if a := <-sent; a.err != nil || a.decision.Degraded {
				t.Errorf("what was sent: %+v", a)
			}
		})
	})
}

// TestATestThatBeganBeforeTheCircuitOpenedDoesNotCloseIt passes, and no later one does.
func TestATestThatBeganBeforeTheCircuitOpenedDoesNotCloseIt(t *testing.T) {
	t.Parallel()
	for _, calm := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			silent := func() time.Duration { return min(time.Second, max(0, time.Since(began)-calm)) }
			watched(t, failing(service.ErrAway), silent, func(c *circuitTest) {
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
