package queue_test

import (
	"context"
	"time"

	"velocityd/service"
)

func at(zone int64, key string) service.Bucket { return service.Bucket{ZoneID: zone, Key: key} }

func check(buckets ...service.Bucket) service.Check { return service.Check{Buckets: buckets} }

// stub is a store that answers as the test says and notes how it was asked.
type stub struct {
	calls    int
	asked    []service.Check
	patience time.Duration
	answer   func(ctx context.Context, call service.Call) ([]service.Decision, error)
}

func (s *stub) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	s.calls++
	s.asked, s.patience = call.Checks, call.Patience
	return s.answer(ctx, call)
}

// admitting answers every check with its place in the call, from 1, as txn id.
func admitting() *stub { return &stub{answer: admit} }

// askOne asks one check; the error may be that of the check alone.
func askOne(ctx context.Context, store service.CheckStore, check service.Check) (service.Decision, error) {
	decisions, err := store.CheckAll(ctx, service.Call{Checks: []service.Check{check}})
	if err != nil {
		return service.Decision{}, err
	}
	return decisions[0], decisions[0].Err
}
