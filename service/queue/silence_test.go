package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/queue"
)

func TestWaiterOnSilentStoreIsAnsweredWithoutIt(t *testing.T) {
	t.Parallel()
	watchedInBubble(t, queue.CoalescerOptions{Lanes: 1, Timeout: 3 * time.Second},
		func(t *testing.T, c *circuitTest, g *gated) {
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
			// Those that left are not asked; the caller that decides alone is.
			g.wantBatch(t, admit, "patient")
			if a := <-patient; a.err != nil || a.decision.Degraded || a.decision.TxnID() == 0 {
				t.Errorf("on_failure error: %+v", a)
			}
		})
}

// askIn asks in one of awayZones for a key, as ask does.
func askIn(t *testing.T, store service.CheckStore, zone, key string) <-chan answer {
	t.Helper()
	question := in(zone)
	question.Buckets[0].Key = key
	return ask(t.Context(), store, question)
}

func TestSentCheckIsAnsweredAfterCircuitOpened(t *testing.T) {
	t.Parallel()
	watchedInBubble(t, queue.CoalescerOptions{Lanes: 1, Timeout: 3 * time.Second},
		func(t *testing.T, c *circuitTest, g *gated) {
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
}

func TestOverloadAndHeldBucketsAreNoSilence(t *testing.T) {
	t.Parallel()
	slowly := func(ctx context.Context, call service.Call) ([]service.Decision, error) {
		time.Sleep(200 * time.Millisecond)
		return admit(ctx, call)
	}
	o := queue.CoalescerOptions{Lanes: 1, MaxBatch: 1, Timeout: 3 * time.Second}
	watchedInBubble(t, o, func(t *testing.T, c *circuitTest, g *gated) {
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
}

// TestDatabaseTimelyRefusingOverlappingCallsIsNotSilent always has a call under way.
func TestDatabaseTimelyRefusingOverlappingCallsIsNotSilent(t *testing.T) {
	t.Parallel()
	full := failWith(fmt.Errorf("%w: too many connections", service.ErrBusy))
	o := queue.CoalescerOptions{Lanes: 2, MaxBatch: 1, Queue: 1, Timeout: 3 * time.Second}
	watchedInBubble(t, o, func(t *testing.T, c *circuitTest, g *gated) {
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
}

// TestStorePassingTestIsNotAway has the only call wait for a bucket that is stuck, which it does
// not expect: the other checks wait with it, and are decided.
func TestStorePassingTestIsNotAway(t *testing.T) {
	t.Parallel()
	watchedInBubble(t, queue.CoalescerOptions{Lanes: 1, Timeout: 3 * time.Second},
		func(t *testing.T, c *circuitTest, g *gated) {
			stuck := askIn(t, c, "allow", "stuck")
			<-g.began
			other := askIn(t, c, "allow", "other")
			time.Sleep(2 * time.Second)
			c.wantClosed(t)
			g.proceed <- failWith(fmt.Errorf("lock wait: %w", service.ErrBusy))
			if a := <-stuck; !errors.Is(a.err, service.ErrBusy) {
				t.Errorf("the stuck check: %+v", a)
			}
			g.wantBatch(t, admit, "other")
			if a := <-other; a.err != nil || a.decision.Degraded {
				t.Errorf("the other one: %+v", a)
			}
			c.wantClosed(t)
		})
}

// TestStoreSilentOnTestsIsAwayInTime has the test hang as the calls do.
func TestStoreSilentOnTestsIsAwayInTime(t *testing.T) {
	t.Parallel()
	watchedInBubble(t, queue.CoalescerOptions{Lanes: 1, Timeout: 3 * time.Second},
		func(t *testing.T, c *circuitTest, g *gated) {
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
}

// TestStoreIsAwayWhenOnlyItsCommitsHang loses the checks that were sent to it, twice.
func TestStoreIsAwayWhenOnlyItsCommitsHang(t *testing.T) {
	t.Parallel()
	const deadline = 5 * time.Second
	watchedInBubble(t, queue.CoalescerOptions{Lanes: 1, Timeout: deadline}, func(t *testing.T, c *circuitTest, g *gated) {
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
}

// TestStoreGivingUpLockWaitsIsNotAway has the store say every two seconds that a lock was waited
// for too long, in the midst of its calls, and answer its tests late. Once it is taken for silent for a
// while: that ends with the next word that it says, and does not come again.
func TestStoreGivingUpLockWaitsIsNotAway(t *testing.T) {
	t.Parallel()
	const between, deadline = 2 * time.Second, time.Minute
	synctest.Test(t, func(t *testing.T) {
		store := storeFunc(
			func(ctx context.Context, _ string, _ service.Call) ([]service.Decision, error) { return hangs(ctx) })
		watched(t, store, queue.CoalescerOptions{Lanes: 1, Timeout: deadline}, nil, func(c *circuitTest) {
			words, done := context.WithCancel(t.Context())
			var speaks sync.WaitGroup
			speaks.Go(func() {
				for words.Err() == nil {
					select {
					case <-time.After(between):
						c.NoteResponse()
					case <-words.Done():
					}
				}
			})
			defer speaks.Wait()
			defer done()
			c.hang(900 * time.Millisecond)
			answers := []<-chan answer{askIn(t, c, "allow", "sent"), askIn(t, c, "allow", "waits")}
			time.Sleep(20 * time.Second)
			c.wantClosed(t)
			c.find(service.ErrAway)
			time.Sleep(2 * between) // so that a test begins and ends between two words
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
	})
}

// TestSilentPartDoesNotMakeStoreAway has a part hang whose call nobody else's answer ends,
// and tests that wait for that part, too, before they pass.
func TestSilentPartDoesNotMakeStoreAway(t *testing.T) {
	t.Parallel()
	watchedInBubble(t, queue.CoalescerOptions{Lanes: 1, Timeout: 20 * time.Second},
		func(t *testing.T, c *circuitTest, g *gated) {
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
}

// TestSilentSplitStoreIsAwayAfterFailedTest has the test hang as the call does, and fail.
func TestSilentSplitStoreIsAwayAfterFailedTest(t *testing.T) {
	t.Parallel()
	watchedInBubble(t, queue.CoalescerOptions{Lanes: 1, Timeout: 20 * time.Second},
		func(t *testing.T, c *circuitTest, g *gated) {
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
				t.Errorf("the sent check: %+v", a)
			}
		})
}
