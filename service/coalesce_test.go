package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/servicetest"
)

// gated is a store whose calls wait for the test: each tells its keys to began
// and goes on with what the test sends to proceed.
type gated struct {
	began   chan []string
	proceed chan func(ctx context.Context, checks []service.Check) ([]service.Decision, error)
}

func newGated() *gated {
	return &gated{
		began:   make(chan []string),
		proceed: make(chan func(context.Context, []service.Check) ([]service.Decision, error)),
	}
}

func (g *gated) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	g.began <- keysOf(checks)
	return (<-g.proceed)(ctx, checks)
}

// keysOf are the first buckets' keys.
func keysOf(checks []service.Check) []string {
	var keys []string
	for _, c := range checks {
		keys = append(keys, c.Buckets[0].Key)
	}
	return keys
}

// admit answers each check with its place in the call, from 1, as txn id.
func admit(_ context.Context, checks []service.Check) ([]service.Decision, error) {
	decisions := make([]service.Decision, len(checks))
	for i, c := range checks {
		decisions[i].Verdicts = []service.Verdict{{Bucket: c.Buckets[0], TxnID: uint64(i + 1)}}
	}
	return decisions, nil
}

func failWith(err error) func(context.Context, []service.Check) ([]service.Decision, error) {
	return func(context.Context, []service.Check) ([]service.Decision, error) { return nil, err }
}

// inBubble runs a test with a Coalescer in front of a gated store. Time is the
// bubble's; the Coalescer is closed at the end, when nothing may be left.
func inBubble(t *testing.T, o service.CoalescerOptions, test func(t *testing.T, c *service.Coalescer, g *gated)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		c := service.NewCoalescer(g, o)
		test(t, c, g)
		if err := c.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// oneLane is what tests want that are not about lanes.
func oneLane() service.CoalescerOptions { return service.CoalescerOptions{Lanes: 1} }

// answer is what one caller got.
type answer struct {
	key      string
	decision service.Decision
	err      error
}

// ask asks a check in a goroutine of its own and returns when it is in its lane.
func ask(ctx context.Context, c *service.Coalescer, question service.Check) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		decisions, err := c.CheckAll(ctx, []service.Check{question})
		got := answer{key: question.Buckets[0].Key, err: err}
		if err == nil {
			got.decision = decisions[0]
		}
		answers <- got
	}()
	synctest.Wait()
	return answers
}

// askKeys asks for keys of zone 1, one after the other.
func askKeys(t *testing.T, c *service.Coalescer, keys ...string) (answers []<-chan answer) {
	t.Helper()
	for _, key := range keys {
		answers = append(answers, ask(t.Context(), c, check(at(1, key))))
	}
	return answers
}

// wantBatch waits for a call of the store and lets it go on.
func (g *gated) wantBatch(
	t *testing.T, proceed func(context.Context, []service.Check) ([]service.Decision, error), keys ...string,
) {
	t.Helper()
	if got := <-g.began; !slices.Equal(got, keys) {
		t.Errorf("the store was asked for %q, want %q", got, keys)
	}
	g.proceed <- proceed
}

// serve lets every call go on until the test says so.
func (g *gated) serve(
	proceed func(context.Context, []service.Check) ([]service.Decision, error), until <-chan struct{},
) {
	for {
		select {
		case <-g.began:
			g.proceed <- proceed
		case <-until:
			return
		}
	}
}

// wantAnswers waits for answers: nil for one that names the caller's own bucket.
func wantAnswers(t *testing.T, answers []<-chan answer, wants ...error) {
	t.Helper()
	for i, want := range wants {
		got := <-answers[i]
		own := len(got.decision.Verdicts) == 1 && got.decision.Verdicts[0].Bucket.Key == got.key
		if !errors.Is(got.err, want) || (want == nil) != own {
			t.Errorf("caller %d, of %q, got %+v, %v, want %v", i, got.key, got.decision, got.err, want)
		}
	}
}

func TestCoalescerKeepsTheContract(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]service.CoalescerOptions{
		"default":       {},
		"one lane":      {Lanes: 1},
		"small batches": {Lanes: 2, MaxBatch: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servicetest.Exercise(t, func(t *testing.T) servicetest.Bench {
				m := servicetest.NewMemory()
				c := service.NewCoalescer(m, o)
				t.Cleanup(func() {
					if err := c.Close(context.Background()); err != nil {
						t.Error(err)
					}
				})
				limiter := service.NewNormalizingLimiter(c, m, 30*time.Second)
				return coalesced{Bench: m.Bench(), checks: limiter}
			})
		})
	}
}

// coalesced is the reference store, its checks asked through a Coalescer.
type coalesced struct {
	servicetest.Bench
	checks service.CheckStore
}

func (c coalesced) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	return c.checks.CheckAll(ctx, checks)
}

func TestLoneCheckIsABatchOfOne(t *testing.T) {
	t.Parallel()
	inBubble(t, oneLane(), func(t *testing.T, c *service.Coalescer, g *gated) {
		began := time.Now()
		answers := askKeys(t, c, "alice")
		g.wantBatch(t, admit, "alice")
		wantAnswers(t, answers, nil)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("a lone check waited %v", waited)
		}
	})
}

func TestWhatWaitedSharesOneCallInOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, oneLane(), func(t *testing.T, c *service.Coalescer, g *gated) {
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
	inBubble(t, service.CoalescerOptions{Lanes: 1, MaxBatch: 2}, func(t *testing.T, c *service.Coalescer, g *gated) {
		answers := askKeys(t, c, "a", "b", "c", "d")
		g.wantBatch(t, admit, "a")
		g.wantBatch(t, admit, "b", "c")
		g.wantBatch(t, admit, "d")
		wantAnswers(t, answers, nil, nil, nil, nil)
	})
}

func TestRefusalOfOneCheckIsItsOwnAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, oneLane(), func(t *testing.T, c *service.Coalescer, g *gated) {
		answers := askKeys(t, c, "first", "unknown", "bob")
		g.wantBatch(t, admit, "first")
		g.wantBatch(t, func(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
			decisions, err := admit(ctx, checks)
			decisions[0] = service.Decision{Err: service.ErrNotFound}
			return decisions, err
		}, "unknown", "bob")
		if got := <-answers[1]; got.err != nil || !errors.Is(got.decision.Err, service.ErrNotFound) {
			t.Errorf("got %+v, %v, want ErrNotFound in the decision", got.decision, got.err)
		}
		wantAnswers(t, []<-chan answer{answers[0], answers[2]}, nil, nil)
	})
}

func TestNoChecksAreNoBatch(t *testing.T) {
	t.Parallel()
	store := admitting()
	c := service.NewCoalescer(store, service.CoalescerOptions{})
	if decisions, err := c.CheckAll(t.Context(), nil); err != nil || len(decisions) != 0 || store.calls != 0 {
		t.Errorf("got %+v, %v", decisions, err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// laneOf is where a check waits while nothing goes on.
func laneOf(t *testing.T, c *service.Coalescer, question service.Check) (int, <-chan answer) {
	t.Helper()
	before := c.Waiting()
	answers := ask(t.Context(), c, question)
	for i, n := range c.Waiting() {
		if n > before[i] {
			return i, answers
		}
	}
	t.Fatal("the check waits in no lane")
	return 0, nil
}

// inBusyLanes is inBubble with four lanes, all at work, so that what comes next
// stays in its queue. test returns those that it queued.
func inBusyLanes(t *testing.T, test func(t *testing.T, c *service.Coalescer) []<-chan answer) {
	t.Helper()
	inBubble(t, service.CoalescerOptions{Lanes: 4}, func(t *testing.T, c *service.Coalescer, g *gated) {
		var waiting []<-chan answer
		// Each call that has begun stands in its lane; more for that lane queue.
		for i := 0; c.Working() < 4; i++ {
			waiting = append(waiting, ask(t.Context(), c, check(at(9, string(rune('a'+i))))))
		}
		waiting = append(waiting, test(t, c)...)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			wantAnswers(t, waiting, make([]error, len(waiting))...)
		}()
		g.serve(admit, answered)
	})
}

// comeAndGo asks a check that many times over, and leaves its queue each time.
func comeAndGo(t *testing.T, c *service.Coalescer, question service.Check, times int) {
	t.Helper()
	for range times {
		ctx, cancel := context.WithCancel(t.Context())
		answers := ask(ctx, c, question)
		cancel()
		if got := <-answers; !errors.Is(got.err, service.ErrBusy) {
			t.Errorf("left the queue with %v", got.err)
		}
	}
}

func TestChecksOfOneBucketMeetInOneLane(t *testing.T) {
	t.Parallel()
	inBusyLanes(t, func(t *testing.T, c *service.Coalescer) (waiting []<-chan answer) {
		t.Helper()
		used := map[int]bool{}
		for i := range 3 * service.Enough {
			key := fmt.Sprint("key-", i)
			home, first := laneOf(t, c, check(at(1, key)))
			waiting = append(waiting, first)
			used[home] = true
			lane, next := laneOf(t, c, check(at(1, key)))
			if waiting = append(waiting, next); lane != home {
				t.Errorf("checks of %s wait in lanes %d and %d", key, home, lane)
			}
		}
		if len(used) != 4 {
			t.Errorf("so many keys met in lanes %v", used)
		}
		return waiting
	})
}

func TestALaneIsFilledBeforeTheNextIsUsed(t *testing.T) {
	t.Parallel()
	inBubble(t, service.CoalescerOptions{Lanes: 4}, func(t *testing.T, c *service.Coalescer, g *gated) {
		waiting := []<-chan answer{ask(t.Context(), c, check(at(1, "under way")))}
		for i := range service.Enough {
			lane, next := laneOf(t, c, check(at(1, fmt.Sprint("key-", i))))
			if waiting = append(waiting, next); lane != 0 {
				t.Errorf("check %d waits in lane %d", i, lane)
			}
		}
		waiting = append(waiting, ask(t.Context(), c, check(at(1, "one more"))))
		if working := c.Working(); working != 2 {
			t.Errorf("%d lanes are at work, want the second, too", working)
		}
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			wantAnswers(t, waiting, make([]error, len(waiting))...)
		}()
		g.serve(admit, answered)
	})
}

func TestChecksThatShareABucketMeetThoughAnotherOneWasHot(t *testing.T) {
	t.Parallel()
	inBusyLanes(t, func(t *testing.T, c *service.Coalescer) (waiting []<-chan answer) {
		t.Helper()
		apart := 0
		for _, name := range []string{"alice", "bob", "carol", "dave", "eve"} {
			user, addr := at(1, name), at(2, "address of "+name)
			comeAndGo(t, c, check(addr), 3) // was hot, is not
			var lanes []int
			for _, question := range []service.Check{check(addr, user), check(user, addr), check(user)} {
				lane, answers := laneOf(t, c, question)
				lanes, waiting = append(lanes, lane), append(waiting, answers)
			}
			if lanes[0] != lanes[1] || lanes[1] != lanes[2] {
				apart++
			}
		}
		// One in a few thousand shares its place in the count with another bucket.
		if apart > 1 {
			t.Errorf("the checks of %d of 5 users wait in several lanes", apart)
		}
		return waiting
	})
}

func TestChecksThatShareAHotBucketMeetInItsLane(t *testing.T) {
	t.Parallel()
	inBusyLanes(t, func(t *testing.T, c *service.Coalescer) (waiting []<-chan answer) {
		t.Helper()
		hot := at(2, "203.0.113.7")
		comeAndGo(t, c, check(hot), 9)
		home, first := laneOf(t, c, check(hot))
		waiting = append(waiting, first, ask(t.Context(), c, check(hot)), ask(t.Context(), c, check(hot)))
		for _, user := range []string{"alice", "bob", "carol", "dave", "eve", "faythe", "grace", "heidi", "ivan", "judy"} {
			lane, answers := laneOf(t, c, check(at(1, user), hot))
			if waiting = append(waiting, answers); lane != home {
				t.Errorf("%s's check waits in lane %d, others from that address in %d", user, lane, home)
			}
		}
		return waiting
	})
}
