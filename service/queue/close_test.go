package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/queue"
)

func TestCloseDecidesQueuedChecksAndRefusesTheRest(t *testing.T) {
	t.Parallel()
	inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
		answers := askKeys(t, c, "first", "a", "b")
		closed := make(chan error, 1)
		go func() { closed <- c.Close(t.Context()) }()
		synctest.Wait()
		for n := range 3 {
			checks := slices.Repeat([]service.Check{check(at(1, "late"))}, n)
			if _, err := c.CheckAll(t.Context(), service.Call{Checks: checks}); !errors.Is(err, service.ErrBusy) {
				t.Errorf("%d checks after Close: %v, want ErrBusy", n, err)
			}
		}
		select {
		case err := <-closed:
			t.Errorf("Close returned %v while a check was under way", err)
		default:
		}
		g.wantBatch(t, admit, "first")
		g.wantBatch(t, admit, "a", "b")
		wantAnswers(t, answers, nil, nil, nil)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

func TestCloseAnswersWaitingCallersAtItsDeadline(t *testing.T) {
	t.Parallel()
	inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
		answers := askKeys(t, c, "first", "leads", "follows")
		g.wantBatch(t, admit, "first")
		<-g.began
		answers = append(answers, askKeys(t, c, "a", "b")...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		if waiting := c.Waiting()[0]; waiting != 0 {
			t.Errorf("%d checks wait after Close", waiting)
		}
		wantAnswers(t, answers[2:], service.ErrUndecided, service.ErrBusy, service.ErrBusy)
		g.proceed <- admit // and no caller leads another call: the bubble sees that
		wantAnswers(t, answers[:2], nil, nil)
	})
}

func TestEachCheckIsDecidedOnceAmidCallerTurnover(t *testing.T) {
	t.Parallel()
	const callers, each = 64, 50
	store := &tally{}
	c := queue.NewCoalescer(store, queue.CoalescerOptions{Lanes: 3, MaxBatch: 7, Queue: 20})
	var mu sync.Mutex
	var decided, unknown uint64
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for n := range each {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+n)%3 == 0 {
					go cancel()
				}
				user, addr := at(1, fmt.Sprint("user", i)), at(2, fmt.Sprint("addr", n%5))
				decisions, err := c.CheckAll(ctx, service.Call{Checks: []service.Check{check(user, addr)}})
				cancel()
				mu.Lock()
				switch {
				case err == nil && decisions[0].Verdicts[0].Bucket == user:
					decided++
				case errors.Is(err, service.ErrUndecided):
					unknown++
				case !errors.Is(err, service.ErrBusy):
					t.Errorf("caller %d got %+v, %v", i, decisions, err)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if store.checks != decided+unknown {
		t.Errorf("the store decided %d checks, %d callers know of it and %d left", store.checks, decided, unknown)
	}
}

// tally counts the checks that it admits.
type tally struct {
	mu     sync.Mutex
	checks uint64
}

func (s *tally) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks += uint64(len(call.Checks))
	return admit(ctx, call)
}
