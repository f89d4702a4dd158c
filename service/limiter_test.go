package service_test

import (
	"context"
	"errors"
	"slices"
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
	checks := call.Checks
	s.calls++
	s.asked, s.deadline = checks, call.Deadline
	_, s.isBounded = ctx.Deadline()
	return s.answer(ctx, call)
}

// admitting answers every check with a decision that names its key.
func admitting() *stub {
	return &stub{answer: func(_ context.Context, call service.Call) ([]service.Decision, error) {
		checks := call.Checks
		decisions := make([]service.Decision, len(checks))
		for i, c := range checks {
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

func TestLimiterKeepsInvalidChecksFromTheStoreAndInTheirPlaces(t *testing.T) {
	t.Parallel()
	store := admitting()
	checks := []service.Check{
		{}, check(at(1, "a")), check(at(0, "b")), check(at(1, "c"), at(0, "c")), check(at(1, "d")), check(at(1, "")),
	}
	decisions, err := service.NewLimiter(store, service.LimiterOptions{Timeout: time.Minute}).CheckAll(t.Context(), checks)
	if err != nil || len(decisions) != len(checks) {
		t.Fatalf("got %d decisions, err %v", len(decisions), err)
	}
	for i, d := range decisions {
		valid := i == 1 || i == 4
		if errors.Is(d.Err, service.ErrInvalid) == valid || (d.TxnID() != 0) != valid {
			t.Errorf("check %d: got %+v, want valid %v", i, d, valid)
		}
		if valid && d.Verdicts[0].Bucket != checks[i].Buckets[0] {
			t.Errorf("check %d was answered for %+v", i, d.Verdicts[0].Bucket)
		}
	}
	asked := slices.EqualFunc(store.asked, []service.Check{checks[1], checks[4]}, func(a, b service.Check) bool {
		return slices.Equal(a.Buckets, b.Buckets)
	})
	if store.calls != 1 || !asked {
		t.Errorf("the store was asked %d times, at last %+v", store.calls, store.asked)
	}
}

func TestLimiterDoesNotCallTheStoreForNothing(t *testing.T) {
	t.Parallel()
	for name, checks := range map[string][]service.Check{
		"all invalid": {{}, check(at(0, "a"))},
		"no checks":   {},
	} {
		store := admitting()
		decisions, err := service.NewLimiter(store, service.LimiterOptions{Timeout: time.Minute}).CheckAll(t.Context(), checks)
		if err != nil || len(decisions) != len(checks) || store.calls != 0 {
			t.Errorf("%s: got %+v, %v after %d calls of the store", name, decisions, err, store.calls)
		}
		for i, d := range decisions {
			if !errors.Is(d.Err, service.ErrInvalid) {
				t.Errorf("%s, check %d: %v, want ErrInvalid", name, i, d.Err)
			}
		}
	}
}

func TestLimiterKeepsTheCallersCancellationFromTheStore(t *testing.T) {
	t.Parallel()
	type key struct{}
	store := admitting()
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "trace"))
	answer := store.answer
	store.answer = func(inner context.Context, call service.Call) ([]service.Decision, error) {
		checks := call.Checks
		cancel() // the caller goes away while the engine is at work
		if ctx.Err() == nil || inner.Err() != nil {
			t.Errorf("caller's context %v, store's %v, want only the caller's ended", ctx.Err(), inner.Err())
		}
		if inner.Value(key{}) != "trace" {
			t.Error("the store does not see the values of the caller's context")
		}
		return answer(inner, service.Call{Checks: checks})
	}
	if d, err := askLimiter(ctx, service.NewLimiter(store, service.LimiterOptions{Timeout: time.Minute}), check(at(1, "a"))); err != nil ||
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
		if _, err := askLimiter(ctx, service.NewLimiter(store, service.LimiterOptions{Timeout: time.Hour}), check(at(1, "a"))); err != nil {
			t.Fatal(err)
		}
		if got := store.deadline; got.Before(before.Add(time.Hour)) || got.After(time.Now().Add(time.Hour)) || store.isBounded {
			t.Errorf("caller's deadline in %v: the store's is %v, want an hour from the call", theirs, got)
		}
	}
}

func TestLimiterAsksNothingForACallerThatHasLeft(t *testing.T) {
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

func TestLimiterPassesTheStoresErrorOnForAllChecks(t *testing.T) {
	t.Parallel()
	for _, want := range []error{service.ErrBusy, service.ErrUndecided, errors.New("internal")} {
		failing := &stub{answer: func(context.Context, service.Call) ([]service.Decision, error) { return nil, want }}
		limiter := service.NewLimiter(failing, service.LimiterOptions{Timeout: time.Minute})
		if d, err := limiter.CheckAll(t.Context(), []service.Check{{}, check(at(1, "a"))}); !errors.Is(err, want) || d != nil {
			t.Errorf("got %+v, %v, want no decisions and %v", d, err, want)
		}
	}
}

func TestLimiterDeniesWithoutAnError(t *testing.T) {
	t.Parallel()
	denying := &stub{answer: func(context.Context, service.Call) ([]service.Decision, error) {
		return []service.Decision{{Blocked: true, Verdicts: []service.Verdict{{Blocked: true, TxnID: 7}}}}, nil
	}}
	d, err := askLimiter(t.Context(), service.NewLimiter(denying, service.LimiterOptions{Timeout: time.Minute}), check(at(1, "a")))
	if err != nil || !d.Blocked || d.TxnID() != 7 {
		t.Errorf("got %+v, %v, want a denial as an answer", d, err)
	}
}

func TestLimiterIsUndecidedWhenAStoreAnswersTooFew(t *testing.T) {
	t.Parallel()
	store := &stub{answer: func(context.Context, service.Call) ([]service.Decision, error) {
		return make([]service.Decision, 1), nil
	}}
	_, err := service.NewLimiter(store, service.LimiterOptions{Timeout: time.Minute}).CheckAll(t.Context(),
		[]service.Check{check(at(1, "a")), check(at(1, "b"))})
	if !errors.Is(err, service.ErrUndecided) {
		t.Errorf("err = %v, want ErrUndecided", err)
	}
}
