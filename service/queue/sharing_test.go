package queue_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/queue"
)

// A caller without another answer must wait for the store, also when the caller that leads its call need not.
func TestCallIsAsPatientAsAllItsCallers(t *testing.T) {
	t.Parallel()
	for other, want := range map[string]time.Duration{"block": queue.DefaultDegradedAfter, "error": 0} {
		t.Run(other, func(t *testing.T) {
			t.Parallel()
			inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
				remember(c)
				begun := askKeys(t, c, "begun")
				<-g.began
				answers := append(begun, askIn(t, c, "allow", "leader"), askIn(t, c, other, "other"))
				g.proceed <- admit
				g.wantBatch(t, func(ctx context.Context, call service.Call) ([]service.Decision, error) {
					if call.Patience != want {
						t.Errorf("the store is given %v, want %v", call.Patience, want)
					}
					return admit(ctx, call)
				}, "leader", "other")
				wantAnswers(t, answers, nil, nil, nil)
			})
		})
	}
}

func TestEachHeldBucketIsWaitedForApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		waits := make(chan []string)
		c := queue.NewCoalescer(heldUnlessWaiting(func(ctx context.Context, call service.Call) ([]service.Decision, error) {
			waits <- keysOf(call.Checks)
			return admit(ctx, call)
		}), queue.CoalescerOptions{HeldCalls: 1})
		answers := askKeys(t, c, "a", "b", "c", "b")
		for _, want := range [][]string{{"a"}, {"b", "b"}, {"c"}} {
			if got := <-waits; !slices.Equal(got, want) {
				t.Errorf("one call waits for %q, want %q", got, want)
			}
		}
		wantAnswers(t, answers, nil, nil, nil, nil)
	})
}
