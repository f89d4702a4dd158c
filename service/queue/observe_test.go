package queue_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/queue"
)

// caller is the key of a caller's name in its context.
type caller struct{}

func as(t *testing.T, name string) context.Context {
	t.Helper()
	return context.WithValue(t.Context(), caller{}, name)
}

func TestTheObserverIsToldOfQueuesAndBatches(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex // guards the observations
	var waited, batches []string
	o := oneLane()
	o.Observe = queue.CoalescerObserver{
		Queued: func(ctx context.Context, joined, taken time.Time) {
			mu.Lock()
			defer mu.Unlock()
			waited = append(waited, fmt.Sprint(ctx.Value(caller{}), " ", taken.Sub(joined)))
		},
		Asked: func(call queue.Asked) {
			mu.Lock()
			defer mu.Unlock()
			for of := range call.Callers() {
				batches = append(
					batches, fmt.Sprint(len(batches), " ", of.Value(caller{}), " of ", call.Checks, ", ", len(call.Decisions),
						" answered in ", time.Since(call.Began), " with ", call.Err))
			}
		},
	}
	inBubble(t, o, func(t *testing.T, c *queue.Coalescer, g *gated) {
		slowly := func(ctx context.Context, call service.Call) ([]service.Decision, error) {
			time.Sleep(time.Second) // the bubble's clock
			return admit(ctx, call)
		}
		first := ask(as(t, "first"), c, check(at(1, "first")))
		second := ask(as(t, "second"), c, check(at(1, "second")))
		left, cancel := context.WithCancel(as(t, "left"))
		third := ask(left, c, check(at(1, "third")))
		cancel()
		<-third // its check was never taken
		fourth := ask(as(t, "fourth"), c, check(at(1, "fourth")))
		g.wantBatch(t, slowly, "first")
		<-first
		g.wantBatch(t, slowly, "second", "fourth")
		<-second
		<-fourth
		synctest.Wait()
	})
	slices.Sort(waited)
	if want := []string{"first 0s", "fourth 1s", "second 1s"}; !slices.Equal(waited, want) {
		t.Errorf("told that %q waited, want %q", waited, want)
	}
	const one, two = " of 1, 1 answered in 1s with <nil>", " of 2, 2 answered in 1s with <nil>"
	if want := []string{"0 first" + one, "1 second" + two, "2 fourth" + two}; !slices.Equal(batches, want) {
		t.Errorf("told of %q in batches, want %q", batches, want)
	}
}

func TestUseCountsRunningAndWaitingChecks(t *testing.T) {
	t.Parallel()
	inBubble(t, queue.CoalescerOptions{Lanes: 2, BulkLanes: 3, HeldCalls: 4},
		func(t *testing.T, c *queue.Coalescer, g *gated) {
			want := func(lone, bulk queue.LaneUse) {
				t.Helper()
				gotLone, gotBulk, held := c.Use()
				if gotLone != lone || gotBulk != bulk || held != (queue.LaneUse{Lanes: 4}) {
					t.Errorf("in use: %+v, %+v, %+v, want %+v, %+v", gotLone, gotBulk, held, lone, bulk)
				}
			}
			want(queue.LaneUse{Lanes: 2}, queue.LaneUse{Lanes: 3})
			answers := askKeys(t, c, "a", "b", "c")
			left, cancel := context.WithCancel(t.Context())
			gone := ask(left, c, check(at(1, "d")))
			want(queue.LaneUse{Lanes: 2, Busy: 1, Waiting: 3}, queue.LaneUse{Lanes: 3})
			cancel()
			<-gone
			want(queue.LaneUse{Lanes: 2, Busy: 1, Waiting: 2}, queue.LaneUse{Lanes: 3})
			bulk := make(chan error, 1)
			go func() {
				_, err := c.CheckAll(t.Context(), service.Call{Checks: []service.Check{check(at(1, "e")), check(at(1, "f"))}})
				bulk <- err
			}()
			synctest.Wait()
			want(queue.LaneUse{Lanes: 2, Busy: 1, Waiting: 2}, queue.LaneUse{Lanes: 3, Busy: 1})
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				wantAnswers(t, answers, nil, nil, nil)
				if err := <-bulk; err != nil {
					t.Error(err)
				}
			}()
			g.serve(admit, answered)
			want(queue.LaneUse{Lanes: 2}, queue.LaneUse{Lanes: 3})
		})
}
