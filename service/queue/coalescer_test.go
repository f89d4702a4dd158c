package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/memory"
	"velocityd/service/queue"
	"velocityd/tools/servicetest"
)

// TestCoalescerKeepsTheContract asks for the claims that cuts, order, the handing out of answers, and second calls
// could break.
func TestCoalescerKeepsTheContract(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]queue.CoalescerOptions{
		"default":       {},
		"one lane":      {Lanes: 1},
		"small batches": {Lanes: 2, MaxBatch: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servicetest.ExerciseSome(t, func(t *testing.T) servicetest.Subject {
				m := memory.New()
				c := queue.NewCoalescer(m, o)
				t.Cleanup(func() {
					if err := c.Close(context.Background()); err != nil {
						t.Error(err)
					}
				})
				return servicetest.Behind(m, c)
			}, []string{
				"BatchIsDecidedInOrder", "BatchMixesAllowedDeniedAndBad", "LargeBatchIsAnsweredInFull", "UnknownZoneIsRefusedAlone",
				"RetryInsideOfABatchIsCountedOnce", "ParallelRetriesGetOneAnswer", "KeyKindEditedBesideChecksFailsNone",
				"OppositeOrderNeverDeadlocks", "AdmitsExactlyRateUnderContention", "FirstUseOfManyKeysAtOnce",
			})
		})
	}
}

func TestLoneCheckIsABatchOfOne(t *testing.T) {
	t.Parallel()
	inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
		began := time.Now()
		answers := askKeys(t, c, "alice")
		g.wantBatch(t, admit, "alice")
		wantAnswers(t, answers, nil)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("a lone check waited %v", waited)
		}
	})
}

func TestWaitingChecksShareOneCallInOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
		answers := askKeys(t, c, "first", "alice", "bob", "alice", "carol", "alice")
		g.wantBatch(t, admit, "first")
		g.wantBatch(t, admit, "alice", "bob", "alice", "carol", "alice")
		for i, want := range []uint64{1, 1, 2, 3, 4, 5} {
			if got := <-answers[i]; got.err != nil || got.decision.TxnID() != want {
				t.Errorf("caller %d got txn %d, %v, want %d", i, got.decision.TxnID(), got.err, want)
			}
		}
	})
}

func TestBatchIsNotLargerThanAllowed(t *testing.T) {
	t.Parallel()
	inBubble(t, queue.CoalescerOptions{Lanes: 1, MaxBatch: 2}, func(t *testing.T, c *queue.Coalescer, g *gated) {
		answers := askKeys(t, c, "a", "b", "c", "d")
		g.wantBatch(t, admit, "a")
		g.wantBatch(t, admit, "b", "c")
		g.wantBatch(t, admit, "d")
		wantAnswers(t, answers, nil, nil, nil, nil)
	})
}

func TestRefusalOfOneCheckIsItsOwnAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, oneLane(), func(t *testing.T, c *queue.Coalescer, g *gated) {
		answers := askKeys(t, c, "first", "unknown", "bob")
		g.wantBatch(t, admit, "first")
		g.wantBatch(t, func(ctx context.Context, call service.Call) ([]service.Decision, error) {
			decisions, err := admit(ctx, call)
			decisions[0] = service.Decision{Err: service.ErrNotFound}
			return decisions, err
		}, "unknown", "bob")
		if got := <-answers[1]; !errors.Is(got.decision.Err, service.ErrNotFound) {
			t.Errorf("got %+v, %v, want ErrNotFound in the decision", got.decision, got.err)
		}
		wantAnswers(t, []<-chan answer{answers[0], answers[2]}, nil, nil)
	})
}

func TestNoChecksAreNoBatch(t *testing.T) {
	t.Parallel()
	store := admitting()
	c := queue.NewCoalescer(store, queue.CoalescerOptions{})
	if decisions, err := c.CheckAll(t.Context(), service.Call{Checks: nil}); err != nil || len(decisions) != 0 ||
		store.calls != 0 {
		t.Errorf("got %+v, %v", decisions, err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// others are the keys of n checks that share no bucket.
func others(name string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint(name, "-", i)
	}
	return keys
}

func TestAnotherCallBeginsWhenEnoughWait(t *testing.T) {
	t.Parallel()
	inBubble(t, queue.CoalescerOptions{Lanes: 2}, func(t *testing.T, c *queue.Coalescer, g *gated) {
		want := func(working, waiting int) {
			t.Helper()
			if c.Working() != working || c.Waiting()[0] != waiting {
				t.Errorf("%d calls are under way and %d checks wait, want %d and %d", c.Working(), c.Waiting()[0], working, waiting)
			}
		}
		second, third := others("second", queue.Enough), others("third", queue.Enough)
		answers := slices.Concat(askKeys(t, c, "first"), askKeys(t, c, second[1:]...))
		want(1, len(second)-1)
		answers = append(answers, askKeys(t, c, second[0])...)
		want(2, 0)
		answers = append(answers, askKeys(t, c, third...)...)
		want(2, len(third)) // there are two lanes
		g.wantBatch(t, admit, "first")
		g.wantBatch(t, admit, append(second[1:], second[0])...)
		g.wantBatch(t, admit, third...)
		wantAnswers(t, answers, make([]error, len(answers))...)
	})
}

func TestNextCallBeginsWhenWaitersEqualRunningChecks(t *testing.T) {
	t.Parallel()
	inBubble(t, queue.CoalescerOptions{Lanes: 2}, func(t *testing.T, c *queue.Coalescer, g *gated) {
		small, large := others("small", queue.Enough), others("large", 2*queue.Enough)
		answers := slices.Concat(askKeys(t, c, "first"), askKeys(t, c, small...), askKeys(t, c, large...))
		g.wantBatch(t, admit, "first") // the large one begins in its place
		next := others("next", len(large))
		answers = append(answers, askKeys(t, c, next[1:]...)...)
		g.wantBatch(t, admit, small...)
		synctest.Wait()
		if c.Working() != 1 {
			t.Errorf("%d calls are under way, want one, because one check less waits than it has", c.Working())
		}
		answers = append(answers, askKeys(t, c, next[0])...)
		if c.Working() != 2 {
			t.Errorf("%d calls are under way, want two", c.Working())
		}
		g.wantBatch(t, admit, large...)
		g.wantBatch(t, admit, append(next[1:], next[0])...)
		wantAnswers(t, answers, make([]error, len(answers))...)
	})
}

func TestTooFewWaitersAwaitEndOfAllCalls(t *testing.T) {
	t.Parallel()
	inBubble(t, queue.CoalescerOptions{Lanes: 2}, func(t *testing.T, c *queue.Coalescer, g *gated) {
		second := others("second", queue.Enough)
		answers := slices.Concat(askKeys(t, c, "first"), askKeys(t, c, second...), askKeys(t, c, "third"))
		g.wantBatch(t, admit, "first")
		synctest.Wait()
		if c.Working() != 1 || c.Waiting()[0] != 1 {
			t.Errorf("%d calls are under way and %d checks wait after the end of the first", c.Working(), c.Waiting()[0])
		}
		g.wantBatch(t, admit, second...)
		g.wantBatch(t, admit, "third")
		wantAnswers(t, answers, make([]error, len(answers))...)
	})
}

func TestBucketIsInOneCallAtATime(t *testing.T) {
	t.Parallel()
	inBubble(t, queue.CoalescerOptions{Lanes: 3}, func(t *testing.T, c *queue.Coalescer, g *gated) {
		hot := at(1, "hot")
		second := others("second", queue.Enough)
		answers := askKeys(t, c, "hot")
		for _, user := range []string{"alice", "bob"} {
			answers = append(answers, ask(t.Context(), c, check(at(2, user), hot)))
		}
		answers = append(answers, askKeys(t, c, slices.Repeat([]string{"hot"}, queue.Enough)...)...)
		answers = append(answers, ask(t.Context(), c, check(at(2, "bob"))))
		answers = append(answers, askKeys(t, c, second[1:]...)...)
		if c.Working() != 2 {
			t.Errorf("%d calls are under way, want that of the hot bucket and that of the others", c.Working())
		}
		g.wantBatch(t, admit, "hot")
		g.wantBatch(t, admit, append([]string{"bob"}, second[1:]...)...)
		g.wantBatch(t, admit, append([]string{"alice"}, slices.Repeat([]string{"hot"}, queue.Enough)...)...)
		g.wantBatch(t, admit, "bob") // one of whose buckets was in each of the two calls
		wantAnswers(t, answers, make([]error, len(answers))...)
	})
}

// exclusive is a store that fails the test if a bucket is in two calls at once, or if there are
// more calls than allowed.
type exclusive struct {
	t       *testing.T
	allowed int
	mu      sync.Mutex
	calls   int
	most    int // calls that were under way at once
	taken   map[service.Bucket]bool
}

func (s *exclusive) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	mine := map[service.Bucket]bool{}
	for _, check := range call.Checks {
		for _, b := range check.Buckets {
			mine[b] = true
		}
	}
	s.mu.Lock()
	if s.calls++; s.calls > s.allowed {
		s.t.Errorf("%d calls are under way, want at most %d", s.calls, s.allowed)
	}
	s.most = max(s.most, s.calls)
	for b := range mine {
		if s.taken[b] {
			s.t.Errorf("bucket %v is in two calls at once", b)
		}
		s.taken[b] = true
	}
	s.mu.Unlock()
	time.Sleep(time.Duration(len(call.Checks)) * time.Millisecond) // the bubble's clock
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	for b := range mine {
		delete(s.taken, b)
	}
	return admit(ctx, call)
}

func TestCallsOfARandomCrowdShareNoBucket(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]int{"few keys": 30, "many keys": 3000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &exclusive{t: t, allowed: 4, taken: map[service.Bucket]bool{}}
				c := queue.NewCoalescer(store, queue.CoalescerOptions{Lanes: store.allowed, MaxBatch: 40})
				var group sync.WaitGroup
				for i := range 300 {
					random := rand.New(rand.NewPCG(1, uint64(i)))
					group.Go(func() {
						for range 40 {
							question := check(at(1, fmt.Sprint(random.IntN(keys))), at(2, fmt.Sprint(random.IntN(keys))))
							if _, err := c.CheckAll(t.Context(), service.Call{Checks: []service.Check{question}}); err != nil {
								t.Error(err)
							}
							time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
						}
					})
				}
				group.Wait()
				if store.most < 2 {
					t.Error("there were never two calls under way: the test shows nothing")
				}
				if err := c.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
