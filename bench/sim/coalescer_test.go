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

// realBatches returns the batches, by the numbers of the checks, that service.Coalescer makes of
// checks that come one by one while its first batch is under way.
func realBatches(t *testing.T, settings Lanes, checks [][]bucket) (batches [][]int) {
	t.Helper()
	g := &gated{asked: make(chan []service.Check), done: make(chan struct{})}
	c := service.NewCoalescer(g, service.CoalescerOptions{
		Lanes: 1, MaxBatch: settings.Batch, Queue: settings.Queue, QueuePerBucket: settings.PerBucket,
		Timeout: time.Minute,
	})
	var group sync.WaitGroup
	for i, buckets := range checks {
		check := service.Check{AttemptID: fmt.Sprint(i)}
		for _, b := range buckets {
			check.Buckets = append(check.Buckets, service.Bucket{ZoneID: 1, Key: fmt.Sprint(b)})
		}
		group.Go(func() { _, _ = c.CheckAll(t.Context(), []service.Check{check}) }) // the batches are what matters
		if i == 0 {
			batches = append(batches, numbers(t, <-g.asked))
			continue
		}
		synctest.Wait() // until it is in the queue
	}
	for answered := 1; answered < len(checks); answered += len(batches[len(batches)-1]) {
		g.done <- struct{}{}
		batches = append(batches, numbers(t, <-g.asked))
	}
	g.done <- struct{}{}
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
func simulatedBatches(settings Lanes, checks [][]bucket) (batches [][]int) {
	l := newLane(nil, settings, 0, false) // no batch begins by itself
	place := map[*check]int{}
	take := func() {
		var list []int
		for _, c := range l.fill() {
			list = append(list, place[c])
		}
		batches = append(batches, list)
	}
	for i, buckets := range checks {
		c := &check{buckets: buckets}
		place[c] = i
		l.join(c)
		if i == 0 {
			take()
		}
	}
	for len(l.queue) > 0 {
		take()
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
				t.Run(fmt.Sprintf("%s, batches of %d, pairs %v", name, size, pairs), func(t *testing.T) {
					t.Parallel()
					settings := Lanes{Count: 1, Held: 4, Batch: size, Queue: 4096, PerBucket: 1024}
					synctest.Test(t, func(t *testing.T) {
						if got, want := simulatedBatches(settings, checks), realBatches(t, settings, checks); !reflect.DeepEqual(got, want) {
							t.Errorf("simulated %v\nreally    %v", got, want)
						}
					})
				})
			}
		}
	}
}
