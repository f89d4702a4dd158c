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
func TestACallIsAsPatientAsAllOfItsCallers(t *testing.T) {
	t.Parallel()
	for name, mayAllLeave := range map[string]bool{"all have another answer": true, "one must wait": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
				begun := askKeys(t, c, "begun")
				<-g.began
				impatient := service.Call{Patience: time.Second, Away: make(chan struct{})}
				other, want := service.Call{}, time.Duration(0)
				if mayAllLeave {
					other, want = impatient, impatient.Patience
				}
				ended := make(chan error)
				for i, call := range []service.Call{impatient, other} {
					go func() {
						_, err := c.CheckAll(t.Context(), call.Of([]service.Check{check(at(1, []string{"leader", "other"}[i]))}))
						ended <- err
					}()
					synctest.Wait()
				}
				g.proceed <- admit
				wantAnswers(t, begun, nil)
				g.wantBatch(t, func(ctx context.Context, call service.Call) ([]service.Decision, error) {
					if call.Patience != want {
						t.Errorf("the store is given %v, want %v", call.Patience, want)
					}
					return admit(ctx, call)
				}, "leader", "other")
				for range 2 {
					if err := <-ended; err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// heldStore refuses calls that do not wait, and tells the keys of those that do.
type heldStore struct{ waits chan []string }

func (s heldStore) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	if call.NoWait {
		return slices.Repeat([]service.Decision{{Err: service.ErrHeld}}, len(call.Checks)), nil
	}
	s.waits <- keysOf(call.Checks)
	return admit(ctx, call)
}

func TestEachHeldBucketIsWaitedForApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := heldStore{make(chan []string)}
		c := queue.NewCoalescer(s, queue.CoalescerOptions{HeldCalls: 1})
		answers := askKeys(t, c, "a", "b", "c", "b")
		for _, want := range [][]string{{"a"}, {"b", "b"}, {"c"}} {
			if got := <-s.waits; !slices.Equal(got, want) {
				t.Errorf("one call waits for %q, want %q", got, want)
			}
		}
		wantAnswers(t, answers, nil, nil, nil, nil)
	})
}
