package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
)

// gated is a store whose calls end when they are let go, and which notes what it was asked.
type gated struct {
	asked chan []service.Check
	done  chan struct{}
}

func (g *gated) CheckAll(_ context.Context, checks []service.Check) ([]service.Decision, error) {
	copied := make([]service.Check, len(checks))
	copy(copied, checks)
	g.asked <- copied
	<-g.done
	return make([]service.Decision, len(checks)), nil
}

// realBatches returns the batches, by the numbers of the checks and in the order in which they
// begin, that service.Coalescer makes of checks that come one by one. After some checks the oldest
// batch ends, and after the last one all do.
func realBatches(t *testing.T, settings Lanes, checks [][]bucket, ends []bool) (batches [][]int) {
	t.Helper()
	g := &gated{asked: make(chan []service.Check), done: make(chan struct{})}
	c := service.NewCoalescer(g, service.CoalescerOptions{
		Lanes: settings.Count, MaxBatch: settings.Batch, Queue: settings.Queue, QueuePerBucket: settings.PerBucket,
		Timeout: time.Minute,
	})
	begun := func() {
		for {
			synctest.Wait()
			select {
			case asked := <-g.asked:
				batches = append(batches, numbers(t, asked))
			default:
				return
			}
		}
	}
	var group sync.WaitGroup
	for i, buckets := range checks {
		check := service.Check{AttemptID: fmt.Sprint(i)}
		for _, b := range buckets {
			check.Buckets = append(check.Buckets, service.Bucket{ZoneID: 1, Key: fmt.Sprint(b)})
		}
		group.Go(func() { _, _ = c.CheckAll(t.Context(), []service.Check{check}) }) // the batches are what matters
		begun()
		if ends[i] {
			g.done <- struct{}{}
			begun()
		}
	}
	for lone, _, _ := c.Use(); lone.Busy > 0; lone, _, _ = c.Use() {
		g.done <- struct{}{}
		begun()
	}
	group.Wait()
	return batches
}

func numbers(t *testing.T, checks []service.Check) (list []int) {
	t.Helper()
	for _, c := range checks {
		var n int
		if _, err := fmt.Sscan(c.AttemptID, &n); err != nil {
			t.Fatal(err)
		}
		list = append(list, n)
	}
	return list
}

// simulatedBatches returns the batches that lane makes of the same checks.
func simulatedBatches(settings Lanes, checks [][]bucket, ends []bool) (batches [][]int) {
	place := map[*check]int{}
	var underWay []*batch
	start := func(_ *lane, checks []*check) *batch {
		var list []int
		for _, c := range checks {
			list = append(list, place[c])
		}
		batches, underWay = append(batches, list), append(underWay, &batch{checks: checks})
		return underWay[len(underWay)-1]
	}
	l := newLane(&clock{}, start, settings, settings.Count, false)
	end := func() {
		oldest := underWay[0]
		underWay = underWay[1:]
		l.ended(oldest)
	}
	for i, buckets := range checks {
		c := &check{buckets: buckets}
		place[c] = i
		l.join(c)
		if ends[i] {
			end()
		}
	}
	for len(underWay) > 0 {
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
