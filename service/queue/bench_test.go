package queue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"velocityd/service"
	"velocityd/service/queue"
)

// instant is a store that costs nearly nothing, and that any number may ask.
type instant struct{}

func (instant) CheckAll(_ context.Context, call service.Call) ([]service.Decision, error) {
	checks := call.Checks
	return make([]service.Decision, len(checks)), nil
}

// BenchmarkCheck is what the way through a lane costs, against the direct one.
func BenchmarkCheck(b *testing.B) {
	for _, buckets := range []int{1, 2} {
		question := []service.Check{{}}
		for i := range buckets {
			question[0].Buckets = append(question[0].Buckets, at(int64(i+1), "203.0.113.77"))
		}
		for _, lanes := range []int{0, 1, 4} {
			var store service.CheckStore = instant{}
			name := fmt.Sprintf("buckets=%d/lanes=%d", buckets, lanes)
			if lanes > 0 {
				c := queue.NewCoalescer(store, queue.CoalescerOptions{Lanes: lanes})
				b.Cleanup(func() { _ = c.Close(context.Background()) })
				store = c
			}
			ask := func(ctx context.Context) error {
				_, err := store.CheckAll(ctx, service.Call{Checks: question})
				return err
			}
			b.Run(name+"/callers=1", func(b *testing.B) { askAtOnce(b, ask, 1) })
			b.Run(name+"/callers=64", func(b *testing.B) { askAtOnce(b, ask, 64) })
		}
	}
}

// askAtOnce asks b.N times in all.
func askAtOnce(b *testing.B, ask func(context.Context) error, callers int) {
	b.ReportAllocs()
	ctx, cancel := context.WithCancel(b.Context()) // one that can end, as callers' can
	defer cancel()
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for n := i; n < b.N; n += callers {
				if err := ask(ctx); err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
}
