package service_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"velocityd/service"
)

// stub is a store that answers as the test says and notes how it was asked.
type stub struct {
	calls     int
	asked     []service.Check
	deadline  time.Time // of the last call
	isBounded bool      // its context had a deadline
	// answer is asked in CheckAll, while ctx lives.
	answer func(ctx context.Context, call service.Call) ([]service.Decision, error)
}

func (s *stub) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	s.calls++
	s.asked, s.deadline = call.Checks, call.Deadline
	_, s.isBounded = ctx.Deadline()
	return s.answer(ctx, call)
}

// admitting answers every check with a decision that names its key.
func admitting() *stub {
	return &stub{answer: func(_ context.Context, call service.Call) ([]service.Decision, error) {
		decisions := make([]service.Decision, len(call.Checks))
		for i, c := range call.Checks {
			decisions[i].Verdicts = []service.Verdict{{Bucket: c.Buckets[0], TxnID: uint64(i + 1)}}
		}
		return decisions, nil
	}}
}

// askLimiter asks one check; the error may be that of the check alone.
func askLimiter(ctx context.Context, limiter *service.Limiter, check service.Check) (service.Decision, error) {
	decisions, err := limiter.CheckAll(ctx, []service.Check{check})
	if err != nil {
		return service.Decision{}, err
	}
	return decisions[0], decisions[0].Err
}

func TestLimiterKeepsTheCallersCancellationFromTheStore(t *testing.T) {
	t.Parallel()
	type key struct{}
	store := admitting()
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "trace"))
	answer := store.answer
	store.answer = func(inner context.Context, call service.Call) ([]service.Decision, error) {
		cancel() // the caller goes away while the engine is at work
		if ctx.Err() == nil || inner.Err() != nil {
			t.Errorf("caller's context %v, store's %v, want only the caller's ended", ctx.Err(), inner.Err())
		}
		if inner.Value(key{}) != "trace" {
			t.Error("the store does not see the values of the caller's context")
		}
		return answer(inner, call)
	}
	if d, err := askLimiter(ctx, service.NewLimiter(store, service.LimiterOptions{Timeout: time.Minute}),
		check(at(1, "a"))); err != nil ||
		d.TxnID() != 1 {
		t.Errorf("got %+v, %v, want the answer in spite of the cancellation", d, err)
	}
}

// The caller's deadline has no effect, nearer or farther.
func TestLimiterGivesTheStoreItsOwnDeadline(t *testing.T) {
	t.Parallel()
	for _, theirs := range []time.Duration{time.Minute, 24 * time.Hour} {
		store := admitting()
		ctx, cancel := context.WithTimeout(t.Context(), theirs)
		defer cancel()
		before := time.Now()
		if _, err := askLimiter(ctx, service.NewLimiter(store, service.LimiterOptions{Timeout: time.Hour}),
			check(at(1, "a"))); err != nil {
			t.Fatal(err)
		}
		if got := store.deadline; got.Before(before.Add(time.Hour)) || got.After(time.Now().Add(time.Hour)) ||
			store.isBounded {
			t.Errorf("caller's deadline in %v: the store's is %v, want an hour from the call", theirs, got)
		}
	}
}

func TestLimiterAsksNothingForDepartedCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	store := admitting()
	_, err := askLimiter(ctx, service.NewLimiter(store, service.LimiterOptions{Timeout: time.Minute}), check(at(1, "a")))
	if !errors.Is(err, service.ErrBusy) || !errors.Is(err, context.Canceled) || errors.Is(err, service.ErrUndecided) {
		t.Errorf("got %v, want ErrBusy: nothing was decided", err)
	}
	if store.calls != 0 {
		t.Errorf("the store was called %d times", store.calls)
	}
}
