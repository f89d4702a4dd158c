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
	"velocityd/tools/nightly"
)

// locking is a store whose calls lock their buckets for a while, and wait for
// those of others up to a second unless told not to. Calls that do not wait pass over
// buckets for which others wait, as SKIP LOCKED does. Tests lock buckets, too.
type locking struct {
	takes time.Duration // and a sixteenth more for each check

	mu             sync.Mutex
	locked         map[service.Bucket]bool
	calls, most    int // under way, and the most at once
	waits, mostOne int // calls that may wait, and the most at once for one bucket
	waitsFor       map[service.Bucket]int
}

// isForeign says that a call must not lock a bucket that it does not hold.
func (s *locking) isForeign(b service.Bucket, noWait bool) bool {
	return s.locked[b] || noWait && s.waitsFor[b] > 0
}

func newLocking(takes time.Duration, held ...service.Bucket) *locking {
	s := &locking{takes: takes, locked: map[service.Bucket]bool{}, waitsFor: map[service.Bucket]int{}}
	for _, b := range held {
		s.locked[b] = true
	}
	return s
}

func (s *locking) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	checks := call.Checks
	s.begin(call, +1)
	defer s.begin(call, -1)
	decisions, _ := admit(ctx, call)
	locked := make([]bool, len(checks))
	var mine []service.Bucket
	for deadline := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) { // the bubble's clock
		mine = append(mine, s.lock(call, locked, mine)...)
		if !slices.Contains(locked, false) || call.NoWait || !time.Now().Before(deadline) {
			break
		}
	}
	time.Sleep(s.takes + time.Duration(len(checks))*s.takes/16)
	s.unlock(mine...)
	for i := range checks {
		switch {
		case locked[i]:
		case call.NoWait:
			decisions[i] = service.Decision{Err: service.ErrHeld}
		default:
			decisions[i] = service.Decision{Err: fmt.Errorf("%w: lock wait", service.ErrHeld)}
		}
	}
	return decisions, nil
}

// lock locks the buckets of those checks that find all of theirs free.
func (s *locking) lock(call service.Call, locked []bool, mine []service.Bucket) (more []service.Bucket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range call.Checks {
		foreign := func(b service.Bucket) bool {
			return s.isForeign(b, call.NoWait) && !slices.Contains(mine, b) && !slices.Contains(more, b)
		}
		if locked[i] || slices.ContainsFunc(c.Buckets, foreign) {
			continue
		}
		locked[i] = true
		for _, b := range c.Buckets {
			s.locked[b] = true
			more = append(more, b)
		}
	}
	return more
}

func (s *locking) unlock(buckets ...service.Bucket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range buckets {
		delete(s.locked, b)
	}
}

// begin counts calls.
func (s *locking) begin(call service.Call, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls += by
	s.most = max(s.most, s.calls)
	if call.NoWait {
		return
	}
	s.waits += by
	buckets := map[service.Bucket]bool{}
	for _, c := range call.Checks {
		for _, b := range c.Buckets {
			buckets[b] = true
		}
	}
	for b := range buckets {
		s.waitsFor[b] += by
		s.mostOne = max(s.mostOne, s.waitsFor[b])
	}
}

func (s *locking) underWay() (waits, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waits, s.calls
}

// overLocks is inBubble in front of a locking store, with one lane.
func overLocks(t *testing.T, s *locking, o queue.CoalescerOptions, test func(t *testing.T, c *queue.Coalescer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Lanes, o.Timeout = 1, 3*time.Second
		c := queue.NewCoalescer(s, o)
		test(t, c)
		if err := c.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func TestHeldBucketHarmsItselfOnly(t *testing.T) {
	t.Parallel()
	held := at(1, "held")
	overLocks(t, newLocking(5*time.Millisecond, held), queue.CoalescerOptions{}, func(t *testing.T, c *queue.Coalescer) {
		var group sync.WaitGroup
		for i := range 50 { // 10 seconds
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				began := time.Now()
				_, err := c.CheckAll(ctx, service.Call{Checks: []service.Check{check(at(2, fmt.Sprint("user", i)), held)}})
				wantBusy(t, "a check of the held bucket", err)
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("told so after %v", took)
				}
			})
			for range 20 {
				began := time.Now()
				decisions, err := c.CheckAll(t.Context(), service.Call{Checks: []service.Check{check(at(1, fmt.Sprint(i)))}})
				if err != nil || decisions[0].Err != nil || time.Since(began) > 20*time.Millisecond {
					t.Errorf("another bucket: %v, %v after %v", decisions, err, time.Since(began))
				}
				time.Sleep(10*time.Millisecond - time.Since(began)%(10*time.Millisecond)) // the bubble's clock
			}
		}
		group.Wait()
	})
}

func TestBrieflyHeldBucketIsDecided(t *testing.T) {
	t.Parallel()
	for name, moment := range map[string]time.Duration{
		"until the second try": 3 * time.Millisecond,
		"for longer":           500 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := at(1, "held")
			s := newLocking(5*time.Millisecond, held)
			overLocks(t, s, queue.CoalescerOptions{}, func(t *testing.T, c *queue.Coalescer) {
				time.AfterFunc(moment, func() { s.unlock(held) })
				began := time.Now()
				wantAnswers(t, []<-chan answer{ask(t.Context(), c, check(held))}, nil)
				if took := time.Since(began); took > moment+20*time.Millisecond {
					t.Errorf("answered after %v, held for %v", took, moment)
				}
				if waited := s.mostOne > 0; waited != (moment > time.Second/10) {
					t.Errorf("a call that waits was made: %v", waited)
				}
			})
		})
	}
}

func TestBucketWaitsInOneCallAtATime(t *testing.T) {
	t.Parallel()
	const workers = 3
	var held []service.Bucket
	for i := range 10 {
		held = append(held, at(int64(i+1), "held"))
	}
	s := newLocking(5*time.Millisecond, held...)
	overLocks(t, s, queue.CoalescerOptions{HeldCalls: workers}, func(t *testing.T, c *queue.Coalescer) {
		var group sync.WaitGroup
		for i := range 60 {
			group.Go(func() {
				_, err := c.CheckAll(t.Context(), service.Call{Checks: []service.Check{check(held[i%10], held[(i+1+i/10)%10])}})
				if err != nil {
					wantBusy(t, "a held bucket", err)
				}
			})
		}
		time.Sleep(300 * time.Millisecond) // the bubble's clock
		if waits, calls := s.underWay(); waits != workers || calls != workers {
			t.Errorf("%d calls wait, %d are under way, want %d", waits, calls, workers)
		}
		time.AfterFunc(2*time.Second, func() { s.unlock(held...) })
		group.Wait()
		if s.mostOne != 1 || s.most > workers+1 {
			t.Errorf("%d calls waited for one bucket, and %d were under way, at once", s.mostOne, s.most)
		}
	})
}

func TestWaitersLearnOfVainWaitForBucket(t *testing.T) {
	t.Parallel()
	first, other := at(1, "first"), at(1, "other")
	s := newLocking(0, first, other)
	overLocks(t, s, queue.CoalescerOptions{HeldCalls: 1}, func(t *testing.T, c *queue.Coalescer) {
		answers := []<-chan answer{ask(t.Context(), c, check(first))} // until 1.0 s
		time.Sleep(900 * time.Millisecond)                            // the bubble's clock
		answers = append(answers, ask(t.Context(), c, check(first)), ask(t.Context(), c, check(at(2, "user"), first)))
		free := ask(t.Context(), c, check(other)) // waits for the one that may wait
		time.Sleep(200 * time.Millisecond)
		for i, waiting := range answers {
			select {
			case got := <-waiting:
				wantBusy(t, fmt.Sprint("caller ", i), got.err)
			default:
				t.Errorf("caller %d waits still", i)
				<-waiting
			}
		}
		s.unlock(other)
		wantAnswers(t, []<-chan answer{free}, nil)
	})
}

func TestCallerThatLeavesHeldBucketIsNotDecided(t *testing.T) {
	t.Parallel()
	held := at(1, "held")
	s := newLocking(0, held)
	overLocks(t, s, queue.CoalescerOptions{}, func(t *testing.T, c *queue.Coalescer) {
		first := ask(t.Context(), c, check(held))
		ctx, cancel := context.WithCancel(t.Context())
		leaver, stays := ask(ctx, c, check(held)), ask(t.Context(), c, check(held))
		if n := c.WaitingForHeld(); n != 2 {
			t.Errorf("%d wait behind the first", n)
		}
		cancel()
		if got := <-leaver; !errors.Is(got.err, service.ErrBusy) || errors.Is(got.err, service.ErrUndecided) {
			t.Errorf("the leaver got %v", got.err)
		}
		s.unlock(held)
		wantAnswers(t, []<-chan answer{first, stays}, nil, nil)
	})
}

func TestTwoInstancesSharingHotBucketsAreNotBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newLocking(5 * time.Millisecond)
		instances := []*queue.Coalescer{
			queue.NewCoalescer(s, queue.CoalescerOptions{}), queue.NewCoalescer(s, queue.CoalescerOptions{}),
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		crowd := func() {
			var group sync.WaitGroup
			for i := range 512 { // enough that each instance has several calls under way
				group.Go(func() {
					for n := range 30 {
						began := time.Now()
						d, err := askOne(ctx, instances[i%2], check(at(1, fmt.Sprint((i*7+n*13)%60))))
						if err != nil || d.TxnID() == 0 || time.Since(began) > 2*time.Second {
							t.Errorf("after %v: %+v, %v", time.Since(began), d, err)
						}
					}
				})
			}
			group.Wait()
		}
		for range 20 { // nearly always the first is enough
			if crowd(); s.mostOne > 0 {
				break
			}
		}
		if s.mostOne == 0 {
			t.Error("no caller had to wait for the other instance")
		}
		for _, c := range instances {
			if err := c.Close(ctx); err != nil {
				t.Error(err)
			}
		}
	})
}

// heldUnlessWaiting is a store of buckets that others hold while no call waits. Calls that wait go on with after.
func heldUnlessWaiting(after func(context.Context, service.Call) ([]service.Decision, error)) storeFunc {
	return func(ctx context.Context, _ string, call service.Call) ([]service.Decision, error) {
		if call.NoWait {
			return slices.Repeat([]service.Decision{{Err: service.ErrHeld}}, len(call.Checks)), nil
		}
		return after(ctx, call)
	}
}

func TestCheckAsksTwiceBeforeWaitingUnlessFirstWaited(t *testing.T) {
	t.Parallel()
	for err, want := range map[error][]bool{
		service.ErrHeld: {false, false, true}, service.ErrStuck: {false, true},
	} {
		var waited []bool
		store := storeFunc(func(ctx context.Context, _ string, call service.Call) ([]service.Decision, error) {
			if waited = append(waited, !call.NoWait); call.NoWait {
				return []service.Decision{{Err: err}}, nil
			}
			return admit(ctx, call)
		})
		d, failed := askOne(t.Context(), queue.NewCoalescer(store, queue.CoalescerOptions{}), check(at(1, "alice")))
		if failed != nil || !slices.Equal(waited, want) {
			t.Errorf("%v: got %+v, %v by calls %v, want %v", err, d, failed, waited, want)
		}
	}
}

func TestFreedBucketForgetsNoWaiter(t *testing.T) {
	t.Parallel()
	const callers, buckets = 64, 5
	each := 100
	if nightly.Is() {
		each = 400
	}
	c := queue.NewCoalescer(heldUnlessWaiting(admit), queue.CoalescerOptions{Lanes: 1, Timeout: time.Minute})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for n := range each {
				question := check(at(1, fmt.Sprint((i+n)%buckets)))
				if n%3 == 0 {
					question = check(at(1, fmt.Sprint((i+n)%buckets)), at(1, fmt.Sprint((i+n+1)%buckets)))
				}
				decisions, err := c.CheckAll(ctx, service.Call{Checks: []service.Check{question}})
				if err != nil || len(decisions) != 1 || decisions[0].Err != nil ||
					decisions[0].Verdicts[0].Bucket != question.Buckets[0] {
					t.Errorf("caller %d, check %d: %+v, %v", i, n, decisions, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestWaiterIsToldWhyDatabaseDidNotWait(t *testing.T) {
	t.Parallel()
	for _, why := range []error{service.ErrAway, fmt.Errorf("%w: too many connections", service.ErrBusy)} {
		synctest.Test(t, func(t *testing.T) {
			c := queue.NewCoalescer(heldUnlessWaiting(func(context.Context, service.Call) ([]service.Decision, error) {
				time.Sleep(time.Second) // the bubble's clock
				return nil, why
			}), queue.CoalescerOptions{})
			var answers []<-chan answer
			for range 3 {
				answers = append(answers, ask(t.Context(), c, check(at(1, "held"))))
				synctest.Wait()
			}
			for i, got := range answers {
				if a := <-got; !errors.Is(a.err, why) {
					t.Errorf("caller %d: %+v, want %v", i, a, why)
				}
			}
		})
	}
}
