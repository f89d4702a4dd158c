package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
)

// gated is a store that notes what it was asked, and whose calls end when they are let go.
type gated struct{ asked chan call }

type call struct {
	checks []int // their numbers
	done   chan struct{}
}

func (g *gated) CheckAll(_ context.Context, checks []service.Check) ([]service.Decision, error) {
	c := call{done: make(chan struct{})}
	for _, check := range checks {
		n, err := strconv.Atoi(check.AttemptID)
		if err != nil {
			return nil, err
		}
		c.checks = append(c.checks, n)
	}
	g.asked <- c
	<-c.done
	return make([]service.Decision, len(checks)), nil
}

// inOrder puts the batches that began at one instant into the order of their first checks.
func inOrder(calls []call) []call {
	slices.SortFunc(calls, func(x, y call) int { return x.checks[0] - y.checks[0] })
	return calls
}

// realBatches returns the batches, by the numbers of the checks and in the order in which they
// begin, that service.Coalescer makes of checks that come one by one. After some checks the oldest
// batch ends, and after the last one all do.
func realBatches(t *testing.T, settings Lanes, checks [][]bucket, ends []bool) (batches [][]int) {
	t.Helper()
	g := &gated{asked: make(chan call, settings.Count)}
	c := service.NewCoalescer(g, service.CoalescerOptions{
		Lanes: settings.Count, MaxBatch: settings.Batch, Queue: settings.Queue, QueuePerBucket: settings.PerBucket,
		Timeout: time.Minute,
	})
	var underWay []call
	begun := func() {
		synctest.Wait()
		var calls []call
		for len(g.asked) > 0 {
			calls = append(calls, <-g.asked)
		}
		for _, begins := range inOrder(calls) {
			batches, underWay = append(batches, begins.checks), append(underWay, begins)
		}
	}
	end := func() {
		close(underWay[0].done)
		underWay = underWay[1:]
		begun()
	}
	var group sync.WaitGroup
	for i, buckets := range checks {
		check := service.Check{AttemptID: strconv.Itoa(i)}
		for _, b := range buckets {
			check.Buckets = append(check.Buckets, service.Bucket{ZoneID: 1, Key: fmt.Sprint(b)})
		}
		group.Go(func() { _, _ = c.CheckAll(t.Context(), []service.Check{check}) }) // the batches are what matters
		begun()
		if ends[i] {
			end()
		}
	}
	for len(underWay) > 0 {
		end()
	}
	group.Wait()
	return batches
}

// simulatedBatches returns the batches that lane makes of the same checks.
func simulatedBatches(settings Lanes, checks [][]bucket, ends []bool) (batches [][]int) {
	place := map[*check]int{}
	var calls []call
	started := map[int]*batch{} // by the first check
	start := func(_ *lane, checks []*check) *batch {
		var list []int
		for _, c := range checks {
			list = append(list, place[c])
		}
		started[list[0]] = &batch{checks: checks}
		calls = append(calls, call{checks: list})
		return started[list[0]]
	}
	l := newLane(&clock{}, start, settings, settings.Count, false)
	ended := 0
	begun := func() {
		for _, begins := range inOrder(calls) {
			batches = append(batches, begins.checks)
		}
		calls = nil
	}
	end := func() {
		l.ended(started[batches[ended][0]])
		ended++
		begun()
	}
	for i, buckets := range checks {
		c := &check{buckets: buckets}
		place[c] = i
		l.join(c)
		begun()
		if ends[i] {
			end()
		}
	}
	for ended < len(batches) {
		end()
	}
	return batches
}

func TestALaneFormsTheBatchesThatTheCoalescerForms(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for name, keys := range map[string]Keys{
		"all alike": {Count: 1000}, "one bucket": {Count: 1}, "two buckets": {Count: 2}, "some hot": {50, 1.5},
	} {
		for _, size := range []int{10, 100, 500} {
			for _, pairs := range []bool{false, true} {
				checks := make([][]bucket, 300)
				for i := range checks {
					checks[i] = []bucket{user(keys.draw(random))}
					if pairs {
						checks[i] = append(checks[i], address(keys.draw(random)))
					}
				}
				ends := make([]bool, len(checks))
				for i := range ends {
					ends[i] = random.IntN(20) == 0
				}
				for _, lanes := range []int{1, 4} {
					t.Run(fmt.Sprintf("%s, batches of %d, pairs %v, %d lanes", name, size, pairs, lanes), func(t *testing.T) {
						t.Parallel()
						settings := Lanes{Count: lanes, Held: 4, Batch: size, Queue: 4096, PerBucket: 1024}
						synctest.Test(t, func(t *testing.T) {
							if got, want := simulatedBatches(settings, checks, ends), realBatches(t, settings, checks, ends); !reflect.DeepEqual(got, want) {
								t.Errorf("simulated %v\nreally    %v", got, want)
							}
						})
					})
				}
			}
		}
	}
}
