package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/queue"
)

// wantBusy fails unless err is a *BusyError, and nothing worse.
func wantBusy(t *testing.T, what string, err error) {
	t.Helper()
	var busy *service.BusyError
	if !errors.As(err, &busy) || !errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrUndecided) ||
		busy.RetryAfter < time.Second {
		t.Errorf("%s: got %v, want a BusyError", what, err)
	}
}

// refusal asks a check that is to be answered at once.
func refusal(t *testing.T, c *queue.Coalescer, question service.Check) error {
	t.Helper()
	_, err := c.CheckAll(t.Context(), service.Call{Checks: []service.Check{question}})
	return err
}

func TestFloodedBucketLeavesRoomForItsNeighbours(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options queue.CoalescerOptions
		share   int
	}{
		"a sixteenth of the queue": {queue.CoalescerOptions{Lanes: 1, Queue: 64}, 4},
		"as said":                  {queue.CoalescerOptions{Lanes: 1, Queue: 16, QueuePerBucket: 7}, 7},
		"at least one":             {queue.CoalescerOptions{Lanes: 1, Queue: 3}, 1},
		"of the default's":         {queue.CoalescerOptions{Lanes: 1}, queue.DefaultQueue / 16},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, test.options, func(t *testing.T, c *queue.Coalescer, g *gated) {
				answers := askKeys(t, c, "first")
				<-g.began
				for range test.share {
					answers = append(answers, ask(t.Context(), c, check(at(1, "flooded"))))
				}
				for range 3 {
					wantBusy(t, "one more of the flooded bucket", refusal(t, c, check(at(1, "flooded"))))
				}
				wantBusy(t, "a check that names it as well", refusal(t, c, check(at(2, "address"), at(1, "flooded"))))
				answers = append(answers, askKeys(t, c, "neighbour")...)
				answers = append(answers, ask(t.Context(), c, check(at(2, "flooded")))) // in another zone
				if waiting := c.Waiting()[0]; waiting != test.share+2 {
					t.Errorf("%d checks wait, want %d", waiting, test.share+2)
				}
				answered := make(chan struct{})
				go func() {
					defer close(answered)
					wantAnswers(t, answers, make([]error, len(answers))...)
				}()
				g.proceed <- admit
				g.serve(admit, answered)
			})
		})
	}
}

func TestNeighboursOvertakeAFlood(t *testing.T) {
	t.Parallel()
	many := func(key string, n int) []string { return slices.Repeat([]string{key}, n) }
	users := make([]string, 60)
	for i := range users {
		users[i] = fmt.Sprintf("user-%d", i)
	}
	for name, test := range map[string]struct {
		waiting []string
		batches [][]string
	}{
		"with 16 checks": {
			waiting: slices.Concat(many("flooded", 40), users[:2]),
			batches: [][]string{slices.Concat(many("flooded", 16), users[:2]), many("flooded", 24)},
		},
		"with a quarter of the batch": {
			waiting: slices.Concat(users[:30], many("flooded", 60), users[30:]),
			batches: [][]string{slices.Concat(users[:30], many("flooded", 30), users[30:]), many("flooded", 30)},
		},
		"not while there are none": {
			waiting: slices.Concat(many("flooded", 20), many("another", 20)),
			batches: [][]string{slices.Concat(many("flooded", 20), many("another", 20))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, queue.CoalescerOptions{Lanes: 1}, func(t *testing.T, c *queue.Coalescer, g *gated) {
				answers := slices.Concat(askKeys(t, c, "first"), askKeys(t, c, test.waiting...))
				g.wantBatch(t, admit, "first")
				for _, batch := range test.batches {
					g.wantBatch(t, admit, batch...)
				}
				wantAnswers(t, answers, make([]error, len(answers))...)
			})
		})
	}
}

func TestFloodedBucketIsAcceptedAgainAsChecksGo(t *testing.T) {
	t.Parallel()
	inBubble(t, queue.CoalescerOptions{Lanes: 1, QueuePerBucket: 2}, func(t *testing.T, c *queue.Coalescer, g *gated) {
		hot := check(at(2, "203.0.113.7"))
		answers := askKeys(t, c, "first")
		ctx, cancel := context.WithCancel(t.Context())
		leaver := ask(ctx, c, hot)
		// Checks of many users from one address share its part of the queue.
		answers = append(answers, ask(t.Context(), c, check(at(1, "alice"), at(2, "203.0.113.7"))))
		wantBusy(t, "a third", refusal(t, c, check(at(1, "bob"), at(2, "203.0.113.7"))))
		cancel()
		if got := <-leaver; !errors.Is(got.err, service.ErrBusy) {
			t.Errorf("the leaver got %v", got.err)
		}
		answers = append(answers, ask(t.Context(), c, hot)) // in the leaver's place
		wantBusy(t, "a third again", refusal(t, c, hot))
		g.wantBatch(t, admit, "first")
		<-g.began
		answers = append(answers, ask(t.Context(), c, hot), ask(t.Context(), c, hot)) // those are under way
		wantBusy(t, "a fifth", refusal(t, c, hot))
		g.proceed <- admit
		g.wantBatch(t, admit, "203.0.113.7", "203.0.113.7")
		wantAnswers(t, answers, make([]error, len(answers))...)
	})
}

func TestCheckBeyondCallersPatienceIsNotBegun(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second
	inBubble(t, queue.CoalescerOptions{Lanes: 1, Timeout: timeout}, func(t *testing.T, c *queue.Coalescer, g *gated) {
		first := askKeys(t, c, "first")
		<-g.began
		patient, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		hasty, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		late, onTime := ask(hasty, c, check(at(1, "hasty"))), ask(patient, c, check(at(1, "patient")))
		time.Sleep(2 * time.Second) // the bubble's clock
		g.proceed <- admit
		g.wantBatch(t, func(ctx context.Context, _ service.Call) ([]service.Decision, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("check: %w: %w", service.ErrBusy, ctx.Err()) // the store knows its end, and says so
		}, "patient")
		wantBusy(t, "the hasty caller", (<-late).err)
		wantAnswers(t, first, nil)
		if got := <-onTime; !errors.Is(got.err, service.ErrBusy) || errors.Is(got.err, service.ErrUndecided) {
			t.Errorf("the patient caller got %v, want what the store said", got.err)
		}
		soon, cancel := context.WithTimeout(t.Context(), timeout-1)
		defer cancel()
		_, err := c.CheckAll(soon, service.Call{Checks: []service.Check{check(at(1, "hopeless"))}})
		wantBusy(t, "a caller that no batch can serve", err)
		if waiting := c.Waiting()[0]; waiting != 0 {
			t.Errorf("%d checks still wait", waiting)
		}
	})
}

func TestBatchOfLateChecksAloneIsNone(t *testing.T) {
	t.Parallel()
	o := queue.CoalescerOptions{Lanes: 1, MaxBatch: 2, Timeout: 3 * time.Second}
	inBubble(t, o, func(t *testing.T, c *queue.Coalescer, g *gated) {
		answers := askKeys(t, c, "first")
		<-g.began
		hasty, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		late := []<-chan answer{ask(hasty, c, check(at(1, "a"))), ask(hasty, c, check(at(1, "b")))}
		answers = append(answers, askKeys(t, c, "c")...)
		time.Sleep(2 * time.Second) // the bubble's clock
		g.proceed <- admit
		g.wantBatch(t, admit, "c")
		wantAnswers(t, answers, nil, nil)
		for _, waiting := range late {
			wantBusy(t, "a late check", (<-waiting).err)
		}
	})
}

func TestIdleLanesCloseInTimeAtAnyDeadline(t *testing.T) {
	t.Parallel()
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			c := queue.NewCoalescer(newGated(), queue.CoalescerOptions{Lanes: 4})
			synctest.Wait()
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
			over, cancel := context.WithCancel(t.Context())
			cancel()
			if err := c.Close(over); err != nil {
				t.Errorf("all had ended before: %v", err)
			}
		})
	}
}
