package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/queue"
)

// wide are n checks of so many buckets each, all of them new.
func wide(name string, n, buckets int) []service.Check {
	checks := make([]service.Check, n)
	for i := range checks {
		for j := range buckets {
			checks[i].Buckets = append(checks[i].Buckets, at(int64(j+1), fmt.Sprint(name, i)))
		}
	}
	return checks
}

// answers are those of a caller of several checks.
type answers struct {
	decisions []service.Decision
	err       error
}

// askAll asks checks in a separate goroutine and returns when they wait.
func askAll(ctx context.Context, store service.CheckStore, checks []service.Check) <-chan answers {
	got := make(chan answers, 1)
	go func() {
		decisions, err := store.CheckAll(ctx, service.Call{Checks: checks})
		got <- answers{decisions, err}
	}()
	synctest.Wait()
	return got
}

// wantErrs fails unless decisions end in these errors, each so often in turn.
func wantErrs(t *testing.T, got answers, runs ...any) {
	t.Helper()
	if got.err != nil {
		t.Fatalf("the whole call failed: %v", got.err)
	}
	place := 0
	for i := 0; i < len(runs); i += 2 {
		n, want := runs[i].(int), error(nil)
		if runs[i+1] != nil {
			want = runs[i+1].(error)
		}
		for range n {
			if d := got.decisions[place]; !errors.Is(d.Err, want) || (d.Err == nil) != (d.TxnID() != 0) {
				t.Fatalf("check %d: got %+v, want %v", place, d, want)
			}
			place++
		}
	}
	if place != len(got.decisions) {
		t.Errorf("got %d decisions, want %d", len(got.decisions), place)
	}
}

func TestLargeCallIsAskedInPiecesInOrder(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ checks, buckets, piece int }{
		{2, 8, 2}, {300, 1, 256}, {100, 8, 32}, {200, 3, 85},
	} {
		t.Run(fmt.Sprintf("%d of %d", test.checks, test.buckets), func(t *testing.T) {
			t.Parallel()
			inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
				checks := wide("key", test.checks, test.buckets)
				got := askAll(t.Context(), c, checks)
				for part := range slices.Chunk(checks, test.piece) {
					g.wantBatch(t, func(ctx context.Context, call service.Call) ([]service.Decision, error) {
						if !call.NoWait {
							t.Error("a piece would wait for what others hold")
						}
						return admit(ctx, call)
					}, keysOf(part)...)
				}
				wantErrs(t, <-got, test.checks, nil)
			})
		})
	}
}

func TestLargeCallsAreAskedBesideLoneChecks(t *testing.T) {
	t.Parallel()
	inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
		lone := askKeys(t, c, "alice")
		<-g.began
		got := askAll(t.Context(), c, []service.Check{check(at(1, "b")), check(at(1, "a")), check(at(1, "b"))})
		if keys := <-g.began; !slices.Equal(keys, []string{"b", "a", "b"}) {
			t.Errorf("the store was asked for %q while the lane was at work", keys)
		}
		g.proceed <- admit
		g.proceed <- admit
		wantErrs(t, <-got, 3, nil)
		wantAnswers(t, lone, nil)
	})
}

func TestLargeCallsTakeTurnsSmallOnesShare(t *testing.T) {
	t.Parallel()
	inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
		large := askAll(t.Context(), c, wide("large", 64, 8))
		<-g.began
		another := askAll(t.Context(), c, wide("another", 64, 8))
		small := askAll(t.Context(), c, wide("small", 10, 1))
		smaller := askAll(t.Context(), c, wide("smaller", 2, 1))
		g.proceed <- admit
		g.wantBatch(t, admit, keysOf(wide("another", 32, 8))...)
		g.wantBatch(t, admit, slices.Concat(keysOf(wide("small", 10, 1)), keysOf(wide("smaller", 2, 1)))...)
		wantErrs(t, <-small, 10, nil)
		wantErrs(t, <-smaller, 2, nil)
		g.wantBatch(t, admit, keysOf(wide("large", 64, 8))[32:]...)
		g.wantBatch(t, admit, keysOf(wide("another", 64, 8))[32:]...)
		wantErrs(t, <-large, 64, nil)
		wantErrs(t, <-another, 64, nil)
	})
}

func TestCallOfWhichSomePiecesFailedSaysWhich(t *testing.T) {
	t.Parallel()
	fault := errors.New("fault")
	for name, test := range map[string]struct{ fails, rest error }{
		"undecided": {service.ErrUndecided, service.ErrBusy},
		"busy":      {service.ErrBusy, service.ErrBusy},
		"stale":     {service.ErrStaleKey, service.ErrStaleKey},
		"fault":     {fault, service.ErrBusy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
				checks := wide("key", 96, 8)
				got := askAll(t.Context(), c, checks)
				g.wantBatch(t, admit, keysOf(checks[:32])...)
				g.wantBatch(t, failWith(test.fails), keysOf(checks[32:64])...)
				wantErrs(t, <-got, 32, nil, 32, test.fails, 32, test.rest)
				got = askAll(t.Context(), c, checks)
				g.wantBatch(t, failWith(test.fails), keysOf(checks[:32])...)
				if got := <-got; !errors.Is(got.err, test.fails) || got.decisions != nil {
					t.Errorf("got %v, %v where nothing was decided", got.decisions, got.err)
				}
			})
		})
	}
}

func TestCallWhoseCallerLeavesEndsWithItsPiece(t *testing.T) {
	t.Parallel()
	inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
		ctx, cancel := context.WithCancel(t.Context())
		checks := wide("key", 64, 8)
		got := askAll(ctx, c, checks)
		<-g.began
		cancel()
		g.proceed <- admit
		wantErrs(t, <-got, 32, nil, 32, service.ErrBusy)
	})
}

func TestHeldChecksOfPieceRetryBeforeNextPiece(t *testing.T) {
	t.Parallel()
	inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
		checks := wide("key", 40, 8)
		got := askAll(t.Context(), c, checks)
		g.wantBatch(t, func(ctx context.Context, call service.Call) ([]service.Decision, error) {
			decisions, err := admit(ctx, call)
			for _, i := range []int{3, 7, 9} {
				decisions[i] = service.Decision{Err: service.ErrHeld}
			}
			return decisions, err
		}, keysOf(checks[:32])...)
		g.wantBatch(t, func(ctx context.Context, call service.Call) ([]service.Decision, error) {
			decisions, err := admit(ctx, call)
			decisions[1] = service.Decision{Err: fmt.Errorf("%w: lock wait", service.ErrHeld)}
			if call.NoWait {
				t.Error("no call waits for the held bucket")
			}
			return decisions, err
		}, "key3", "key7", "key9")
		g.wantBatch(t, admit, keysOf(checks[32:])...)
		answer := <-got
		wantErrs(t, answer, 7, nil, 1, service.ErrBusy, 32, nil)
		wantBusy(t, "the bucket that is held for long", answer.decisions[7].Err)
	})
}

func TestCallOfHeldBucketsOnlyIsWhollyBusy(t *testing.T) {
	t.Parallel()
	held := at(1, "held")
	overLocks(t, newLocking(0, held), queue.CoalescerOptions{}, func(t *testing.T, c *queue.Coalescer) {
		_, err := c.CheckAll(t.Context(), service.Call{Checks: []service.Check{check(held), check(held, at(1, "free"))}})
		wantBusy(t, "a call of which nothing was decided", err)
	})
}

func TestHopelesslyLateCallIsToldAtOnce(t *testing.T) {
	t.Parallel()
	slowly := func(ctx context.Context, call service.Call) ([]service.Decision, error) {
		time.Sleep(500 * time.Millisecond) // the bubble's clock; 2 ms a bucket
		return admit(ctx, call)
	}
	o := queue.CoalescerOptions{Lanes: 1, Timeout: 2 * time.Second}
	inBubble(t, o, func(t *testing.T, c *queue.Coalescer, g *gated) {
		end := make(chan struct{})
		go g.serve(slowly, end)
		defer close(end)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		first := askAll(ctx, c, wide("first", 128, 8)) // 2 s
		if _, err := c.CheckAll(t.Context(), service.Call{Checks: wide("warm", 32, 8)}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		// 3.1 s, and as much as there is of the first.
		_, err := c.CheckAll(ctx, service.Call{Checks: wide("too large", 200, 8)})
		wantBusy(t, "a call that would be through too late", err)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("told so after %v", waited)
		}
		small, err := c.CheckAll(ctx, service.Call{Checks: wide("small", 10, 1)})
		if err != nil || time.Since(began) > time.Second {
			t.Errorf("a small call: %v, %v after %v", small, err, time.Since(began))
		}
		wantErrs(t, <-first, 128, nil)
	})
}

func TestFortyLargestCallsAreAnsweredWholeOrDeferred(t *testing.T) {
	t.Parallel()
	held := at(1, "large 0-3")
	s := newLocking(10*time.Millisecond, held)
	o := queue.CoalescerOptions{BulkLanes: 2, HeldCalls: 3}
	overLocks(t, s, o, func(t *testing.T, c *queue.Coalescer) {
		var group sync.WaitGroup
		var whole atomic.Int64
		for i := range 40 {
			group.Go(func() {
				for range 5 {
					began := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					decisions, err := c.CheckAll(ctx, service.Call{Checks: wide(fmt.Sprint("large ", i, "-"), 1000, 8)})
					cancel()
					refused := slices.DeleteFunc(decisions, func(d service.Decision) bool { return d.Err == nil })
					if err == nil {
						whole.Add(1)
					} else {
						wantBusy(t, "a large call", err)
					}
					if len(refused) > 0 && i > 0 || time.Since(began) > 5*time.Second { // 0 waits for the held bucket
						t.Errorf("caller %d: %d checks were refused after %v", i, len(refused), time.Since(began))
					}
					time.Sleep(time.Second) // the bubble's clock
				}
			})
			group.Go(func() {
				if _, err := askOne(t.Context(), c, check(at(9, fmt.Sprint(i)))); err != nil {
					t.Errorf("lone check %d: %v", i, err)
				}
			})
		}
		group.Wait()
		if whole.Load() < 5 {
			t.Errorf("%d calls were answered", whole.Load())
		}
		if s.most > 1+2+3 {
			t.Errorf("%d calls were under way", s.most)
		}
	})
}
