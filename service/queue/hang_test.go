package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/queue"
)

// storeFunc is a store. It asks apart by the first key of a call.
type storeFunc func(ctx context.Context, key string, call service.Call) ([]service.Decision, error)

func (s storeFunc) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	return s(ctx, call.Checks[0].Buckets[0].Key, call)
}

// hangs never answers, as if the connection were dead.
func hangs(ctx context.Context) ([]service.Decision, error) {
	<-ctx.Done()
	return nil, service.ErrUndecided
}

// busyFor takes the bubble's time for a call.
func busyFor(d time.Duration, checks []service.Check) ([]service.Decision, error) {
	time.Sleep(d)
	return admit(context.Background(), service.Call{Checks: checks})
}

// over runs a test with a watched Coalescer over a store.
func over(t *testing.T, store storeFunc, o queue.CoalescerOptions, test func(t *testing.T, c *circuitTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		watched(t, store, o, nil, func(c *circuitTest) {
			time.Sleep(time.Minute) // so that the circuit is calm
			test(t, c)
		})
	})
}

// TestOneCallThatHangsHoldsUpNoOther has callers come all the time, and some that come once.
func TestOneCallThatHangsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second
	for _, gap := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond} {
		store := func(ctx context.Context, key string, call service.Call) ([]service.Decision, error) {
			if key == "hangs" {
				return hangs(ctx)
			}
			return busyFor(2*time.Millisecond, call.Checks)
		}
		over(t, store, queue.CoalescerOptions{Lanes: 4, Timeout: timeout}, func(t *testing.T, c *circuitTest) {
			dead := askIn(t, c, "allow", "hangs")
			synctest.Wait()
			var others []<-chan answer
			for i := range 14 {
				others = append(others, askIn(t, c, "allow", fmt.Sprint(i)))
				time.Sleep(gap)
			}
			time.Sleep(210 * time.Millisecond)
			for _, other := range others {
				select {
				case a := <-other:
					if a.err != nil || a.decision.Degraded {
						t.Errorf("gap %s: %+v", gap, a)
					}
				default:
					t.Fatalf("gap %s: a check waits for the call that hangs", gap)
				}
			}
			c.wantClosed(t)
			if a := <-dead; !errors.Is(a.err, service.ErrUndecided) {
				t.Errorf("what hangs: %+v", a)
			}
		})
	}
}

// TestSlowStoreAnsweringAfterSilenceIsNotAway takes longer for each call than a silence
// may be, before and after it is silent.
func TestSlowStoreAnsweringAfterSilenceIsNotAway(t *testing.T) {
	t.Parallel()
	var isSilent bool
	store := func(ctx context.Context, _ string, call service.Call) ([]service.Decision, error) {
		if isSilent {
			return hangs(ctx)
		}
		return busyFor(300*time.Millisecond, call.Checks)
	}
	over(t, store, queue.CoalescerOptions{Lanes: 1, Timeout: 3 * time.Second}, func(t *testing.T, c *circuitTest) {
		isSilent = true
		c.find(service.ErrAway)
		<-askIn(t, c, "allow", "lost")
		time.Sleep(5 * time.Second)
		isSilent = false
		c.find(nil)
		time.Sleep(2 * time.Second)
		degraded := 0
		for i := range 200 {
			if a := <-askIn(t, c, "allow", fmt.Sprint(i)); a.err != nil {
				t.Error(a.err)
			} else if a.decision.Degraded {
				degraded++
			}
			time.Sleep(50 * time.Millisecond)
		}
		// At first it is not known that it answers again.
		if changes := c.opened(); degraded > 30 || len(changes) > 4 {
			t.Errorf("%d of 200 degraded: %q", degraded, changes)
		}
	})
}

// TestASplitBatchIsNoSilence has a check at fault make its batch fail again and again.
func TestASplitBatchIsNoSilence(t *testing.T) {
	t.Parallel()
	fault := errors.New("internal fault")
	store := func(_ context.Context, key string, call service.Call) ([]service.Decision, error) {
		checks := call.Checks
		if key == "first" {
			return busyFor(100*time.Millisecond, checks)
		}
		decisions, err := busyFor(200*time.Millisecond, checks)
		for _, check := range checks {
			if check.Buckets[0].Key == "at fault" {
				return nil, fault
			}
		}
		return decisions, err
	}
	over(t, store, queue.CoalescerOptions{Lanes: 1, Timeout: 4 * time.Second}, func(t *testing.T, c *circuitTest) {
		got := []<-chan answer{askIn(t, c, "allow", "first"), askIn(t, c, "allow", "at fault")}
		for i := range 100 {
			got = append(got, askIn(t, c, "allow", fmt.Sprint(i)))
		}
		for i, other := range got {
			if a := <-other; (i == 1) != errors.Is(a.err, fault) || a.decision.Degraded {
				t.Errorf("check %d: %+v", i, a)
			}
		}
		c.wantClosed(t)
	})
}

// TestBusyCheckStaysBusyAfterCircuitCloses waits for a held bucket while the store is
// away for a moment.
func TestBusyCheckStaysBusyAfterCircuitCloses(t *testing.T) {
	t.Parallel()
	store := func(_ context.Context, key string, call service.Call) ([]service.Decision, error) {
		switch {
		case key == "away":
			return nil, service.ErrAway
		case key == "held" && !call.NoWait:
			time.Sleep(2 * time.Second)
			fallthrough
		case key == "held":
			return []service.Decision{{Err: service.ErrHeld}}, nil
		}
		return busyFor(0, call.Checks)
	}
	over(t, store, queue.CoalescerOptions{Lanes: 1, Timeout: 3 * time.Second}, func(t *testing.T, c *circuitTest) {
		held := askIn(t, c, "allow", "held")
		time.Sleep(100 * time.Millisecond)
		if a := <-askIn(t, c, "allow", "away"); !a.decision.Degraded {
			t.Errorf("while it is away: %+v", a)
		}
		if a := <-held; !errors.Is(a.err, service.ErrBusy) || a.decision.Degraded {
			t.Errorf("the held check: %+v", a)
		}
	})
}

// TestTwoHotBucketsDelayCheckOnlyBriefly floods both of its buckets, whose calls end at
// different times.
func TestTwoHotBucketsDelayCheckOnlyBriefly(t *testing.T) {
	t.Parallel()
	const callers, timeout = 64, 3 * time.Second
	store := func(_ context.Context, _ string, call service.Call) ([]service.Decision, error) {
		return busyFor(10*time.Millisecond+time.Duration(len(call.Checks))*37*time.Microsecond, call.Checks)
	}
	synctest.Test(t, func(t *testing.T) {
		c := queue.NewCoalescer(storeFunc(store), queue.CoalescerOptions{Lanes: 2, Timeout: timeout})
		ctx, stop := context.WithCancel(t.Context())
		var flood sync.WaitGroup
		for i := range 2 * callers {
			flood.Go(func() {
				for ctx.Err() == nil {
					if _, err := askOne(t.Context(), c, check(at(1, fmt.Sprint("hot", i%2)))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		for range 5 {
			began := time.Now()
			_, err := askOne(t.Context(), c, check(at(1, "hot0"), at(1, "hot1")))
			if took := time.Since(began); err != nil || took > timeout/10 {
				t.Errorf("%v after %s", err, took)
			}
		}
		stop()
		flood.Wait()
	})
}

// TestPossiblyCountedCheckIsNotBusyAtShutdown has a leader that stays, and a follower.
func TestPossiblyCountedCheckIsNotBusyAtShutdown(t *testing.T) {
	t.Parallel()
	inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
		answers := askKeys(t, c, "first", "leader", "follower")
		g.wantBatch(t, admit, "first")
		<-g.began
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = c.Close(ctx)
		wantAnswers(t, answers[:1], nil)
		if a := <-answers[2]; !errors.Is(a.err, service.ErrUndecided) || errors.Is(a.err, service.ErrBusy) {
			t.Errorf("the follower: %v", a.err)
		}
		g.proceed <- admit
		wantAnswers(t, answers[1:2], nil)
	})
}
