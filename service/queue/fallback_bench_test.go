package queue_test

import (
	"context"
	"testing"

	"velocityd/service"
	"velocityd/service/queue"
)

// BenchmarkFallback is what a Fallback adds to a check through an idle lane, and what an answer
// without the store costs.
func BenchmarkFallback(b *testing.B) {
	for name, zones := range map[string][]service.Zone{
		"without":          nil,
		"no zone wants it": {{ID: 1}},
		"another does":     {{ID: 1}, {ID: 2, OnFailure: service.OnFailureAllow}},
		"allow":            {{ID: 1, OnFailure: service.OnFailureAllow}},
		"allow, away":      {{ID: 1, OnFailure: service.OnFailureAllow}},
	} {
		b.Run(name, func(b *testing.B) {
			c := queue.NewCoalescer(instant{}, queue.CoalescerOptions{Lanes: 1})
			b.Cleanup(func() { _ = c.Close(context.Background()) })
			f := queue.NewFallback(c, queue.FallbackOptions{})
			f.Remember(zones)
			if name == "allow, away" {
				f.Open(service.ErrAway)
			}
			var store service.CheckStore = f
			if zones == nil {
				store = c
			}
			question := service.Call{Checks: []service.Check{check(at(1, "203.0.113.77"))}}
			askAtOnce(b, func(ctx context.Context) error {
				_, err := store.CheckAll(ctx, question)
				return err
			}, 1)
		})
	}
}
