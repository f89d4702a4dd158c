package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/queue"
)

func TestBatchHasItsOwnContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	const timeout = 7 * time.Second
	inBubble(t, queue.CoalescerOptions{Lanes: 1, Timeout: timeout}, func(t *testing.T, c *queue.Coalescer, g *gated) {
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "trace"), time.Hour)
		defer cancel()
		answers := ask(ctx, c, check(at(1, "alice")))
		g.wantBatch(t, func(inner context.Context, call service.Call) ([]service.Decision, error) {
			cancel()
			deadline, _ := inner.Deadline()
			if inner.Err() != nil || time.Until(deadline) != timeout || inner.Value(key{}) != "trace" {
				t.Errorf("the store's context: %v, %v left, value %v", inner.Err(), time.Until(deadline), inner.Value(key{}))
			}
			return admit(inner, call)
		}, "alice")
		<-answers
	})
}

func TestFullQueueIsBusyAndSaysHowLong(t *testing.T) {
	t.Parallel()
	slowly := func(ctx context.Context, call service.Call) ([]service.Decision, error) {
		time.Sleep(700 * time.Millisecond * time.Duration(len(call.Checks))) // the bubble's clock
		return admit(ctx, call)
	}
	o := queue.CoalescerOptions{Lanes: 1, MaxBatch: 4, Queue: 4, Timeout: time.Minute}
	inBubble(t, o, func(t *testing.T, c *queue.Coalescer, g *gated) {
		refused := func(want time.Duration) {
			t.Helper()
			_, err := c.CheckAll(t.Context(), service.Call{Checks: []service.Check{check(at(1, "late"))}})
			var busy *service.BusyError
			if !errors.As(err, &busy) || !errors.Is(err, service.ErrBusy) || busy.RetryAfter != want {
				t.Errorf("got %v, want ErrBusy for %v", err, want)
			}
		}
		answers := askKeys(t, c, "first", "a", "b", "c", "d")
		refused(time.Second) // nothing is known yet
		g.wantBatch(t, slowly, "first")
		wantAnswers(t, answers[:1], nil)
		<-g.began // a, b, c, d
		answers = append(answers, askKeys(t, c, "e", "f", "g", "h")...)
		want := 6 * time.Second // 8 checks of 0.7 s, in whole seconds
		refused(want)
		began := time.Now()
		g.proceed <- slowly
		g.wantBatch(t, slowly, "e", "f", "g", "h")
		wantAnswers(t, answers[1:], nil, nil, nil, nil, nil, nil, nil, nil)
		if took := time.Since(began); took > want || took <= want-time.Second {
			t.Errorf("room came after %v, want the whole seconds to be %v", took, want)
		}
		if waiting := c.Waiting()[0]; waiting != 0 {
			t.Errorf("%d checks still wait", waiting)
		}
	})
}

func TestRetryAfterNeverExceedsTheBatchesDeadlines(t *testing.T) {
	t.Parallel()
	o := queue.CoalescerOptions{Lanes: 1, MaxBatch: 10, Queue: 10, Timeout: 3 * time.Second}
	inBubble(t, o, func(t *testing.T, c *queue.Coalescer, g *gated) {
		answers := askKeys(t, c, "stuck")
		g.wantBatch(t, func(ctx context.Context, _ service.Call) ([]service.Decision, error) {
			<-ctx.Done()
			return nil, service.ErrUndecided
		}, "stuck")
		wantAnswers(t, answers, service.ErrUndecided)
		keys := strings.Fields("0 1 2 3 4 5 6 7 8 9 10")
		answers = askKeys(t, c, keys...)
		_, err := c.CheckAll(t.Context(), service.Call{Checks: []service.Check{check(at(1, "late"))}})
		var busy *service.BusyError
		if !errors.As(err, &busy) || busy.RetryAfter != 6*time.Second {
			t.Errorf("got %v, want the deadlines of two batches", err)
		}
		g.wantBatch(t, admit, keys[0])
		g.wantBatch(t, admit, keys[1:]...)
		wantAnswers(t, answers, make([]error, len(answers))...)
	})
}

func TestCallerThatLeavesTheQueueIsNotDecided(t *testing.T) {
	t.Parallel()
	inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
		answers := askKeys(t, c, "first", "a")
		ctx, cancel := context.WithCancelCause(t.Context())
		leaver := ask(ctx, c, check(at(1, "leaver")))
		answers = append(answers, askKeys(t, c, "b")...)
		cancel(nil)
		got := <-leaver // while the first call is still under way
		if !errors.Is(got.err, service.ErrBusy) || !errors.Is(got.err, context.Canceled) ||
			errors.Is(got.err, service.ErrUndecided) {
			t.Errorf("got %v, want ErrBusy", got.err)
		}
		g.wantBatch(t, admit, "first")
		g.wantBatch(t, admit, "a", "b")
		wantAnswers(t, answers, nil, nil, nil)
		if _, err := c.CheckAll(ctx, service.Call{Checks: []service.Check{check(at(1, "leaver"))}}); !errors.Is(
			err, service.ErrBusy) {
			t.Errorf("a caller that had left before: %v, want ErrBusy", err)
		}
	})
}

func TestCheckGoesOnWhenItsCallerLeaves(t *testing.T) {
	t.Parallel()
	inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		answers := askKeys(t, c, "first", "leads")
		leaver := ask(ctx, c, check(at(1, "leaver")))
		g.wantBatch(t, admit, "first")
		<-g.began
		cancel()
		got := <-leaver
		if !errors.Is(got.err, service.ErrUndecided) || !errors.Is(got.err, context.Canceled) ||
			errors.Is(got.err, service.ErrBusy) {
			t.Errorf("got %v, want ErrUndecided", got.err)
		}
		decided := false
		g.proceed <- func(ctx context.Context, call service.Call) ([]service.Decision, error) {
			decided = ctx.Err() == nil && call.Checks[1].Buckets[0].Key == "leaver"
			return admit(ctx, call)
		}
		wantAnswers(t, answers, nil, nil)
		if !decided {
			t.Error("the check ended with its caller")
		}
	})
}

func TestLeaderAwaitsAnswerAfterItsContextEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
		ctx, cancel := context.WithCancel(t.Context())
		first := ask(ctx, c, check(at(1, "first")))
		<-g.began
		second := ask(ctx, c, check(at(1, "second")))
		others := askKeys(t, c, "other")
		cancel()
		if got := <-second; !errors.Is(got.err, service.ErrBusy) { // it would have led the next call
			t.Errorf("the one that left the queue got %v", got.err)
		}
		g.proceed <- func(ctx context.Context, call service.Call) ([]service.Decision, error) {
			if ctx.Err() != nil {
				t.Error("the call ended with its leader's context")
			}
			return admit(ctx, call)
		}
		g.wantBatch(t, admit, "other")
		wantAnswers(t, []<-chan answer{first, others[0]}, nil, nil)
	})
}

// poisoned fails calls that hold a poisoned key with err, and counts.
type poisoned struct {
	err     error
	calls   int
	decided []string
}

func (p *poisoned) answer(ctx context.Context, call service.Call) ([]service.Decision, error) {
	p.calls++
	keys := keysOf(call.Checks)
	if slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(key, "poison") }) {
		return nil, p.err
	}
	p.decided = append(p.decided, keys...)
	return admit(ctx, call)
}

func TestPoisonedCheckHarmsItselfOnly(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{
		"internal fault":         errors.New("no such table"),
		"key the engine refuses": fmt.Errorf("%w: key", service.ErrInvalid),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
				var keys []string
				var wants []error
				for i := range 100 {
					key, want := fmt.Sprint(i), error(nil)
					if i == 7 || i == 58 {
						key, want = fmt.Sprint("poison", i), fault
					}
					keys, wants = append(keys, key), append(wants, want)
				}
				first := askKeys(t, c, "first")
				<-g.began
				answers := askKeys(t, c, keys...)
				g.proceed <- admit
				store := &poisoned{err: fault}
				answered := make(chan struct{})
				go func() {
					defer close(answered)
					wantAnswers(t, answers, wants...)
				}()
				g.serve(store.answer, answered)
				wantAnswers(t, first, nil)
				healthy := slices.DeleteFunc(keys, func(key string) bool { return strings.HasPrefix(key, "poison") })
				if !slices.Equal(store.decided, healthy) {
					t.Errorf("decided %q, want each once and in order", store.decided)
				}
				if store.calls > 2*2*8 {
					t.Errorf("%d calls to find 2 of 100", store.calls)
				}
			})
		})
	}
}

func TestPoisonedBatchMakesNoCallsPastDeadline(t *testing.T) {
	t.Parallel()
	inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
		fault := errors.New("slow fault")
		answers := askKeys(t, c, "first", "a", "b", "c", "d")
		g.wantBatch(t, admit, "first")
		g.wantBatch(t, failWith(fault), "a", "b", "c", "d")
		g.wantBatch(t, admit, "a", "b")
		g.wantBatch(t, func(ctx context.Context, _ service.Call) ([]service.Decision, error) {
			<-ctx.Done()
			return nil, fault
		}, "c", "d")
		wantAnswers(t, answers, nil, nil, nil, service.ErrBusy, service.ErrBusy)
	})
}

func TestStaleKeyIsToldToItsRuleOnly(t *testing.T) {
	t.Parallel()
	old, current := service.KeyRule{Kind: service.KeyUsername}, service.KeyRule{Kind: service.KeyOpaque}
	ruled := func(key string, rule service.KeyRule) service.Check {
		return service.Check{Buckets: []service.Bucket{at(1, key)}, KeyRules: []service.KeyRule{rule}}
	}
	stale := func(ctx context.Context, call service.Call) ([]service.Decision, error) {
		for _, c := range call.Checks {
			if c.KeyRules != nil && c.KeyRules[0] == old {
				return nil, fmt.Errorf("zone 1: %w", service.ErrStaleKey)
			}
		}
		return admit(ctx, call)
	}
	inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
		answers := askKeys(t, c, "first")
		for _, question := range []service.Check{
			ruled("a", current), ruled("stale b", old), ruled("c", current), ruled("stale d", old), check(at(2, "e")),
		} {
			answers = append(answers, ask(t.Context(), c, question))
		}
		g.wantBatch(t, admit, "first")
		g.wantBatch(t, stale, "a", "stale b", "c", "stale d", "e")
		g.wantBatch(t, stale, "a", "c")
		g.wantBatch(t, stale, "stale b", "stale d", "e")
		g.wantBatch(t, stale, "stale b", "stale d")
		g.wantBatch(t, stale, "e")
		wantAnswers(t, answers, nil, nil, service.ErrStaleKey, nil, service.ErrStaleKey, nil)
	})
}

func TestLostOrRefusedBatchIsNotRepeated(t *testing.T) {
	t.Parallel()
	tooFew := func(context.Context, service.Call) ([]service.Decision, error) {
		return make([]service.Decision, 1), nil
	}
	panicking := func(context.Context, service.Call) ([]service.Decision, error) { panic("broken store") }
	for name, test := range map[string]struct {
		answer func(context.Context, service.Call) ([]service.Decision, error)
		want   error
	}{
		"undecided":        {failWith(fmt.Errorf("check: %w: EOF", service.ErrUndecided)), service.ErrUndecided},
		"busy":             {failWith(fmt.Errorf("check: %w: 1205", service.ErrBusy)), service.ErrBusy},
		"answered too few": {tooFew, service.ErrUndecided},
		"the store panics": {panicking, service.ErrUndecided},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
				answers := askKeys(t, c, "first", "a", "b", "c")
				g.wantBatch(t, admit, "first")
				g.wantBatch(t, test.answer, "a", "b", "c")
				wantAnswers(t, answers, nil, test.want, test.want, test.want)
				answers = askKeys(t, c, "after") // and the lane lives
				g.wantBatch(t, admit, "after")
				wantAnswers(t, answers, nil)
			})
		})
	}
}
