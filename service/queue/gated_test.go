package queue_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"velocityd/service"
	"velocityd/service/queue"
)

// gated is a store whose calls wait for the test: each tells its keys to began
// and goes on with the answer that the test sends to proceed.
type gated struct {
	began   chan []string
	proceed chan func(ctx context.Context, call service.Call) ([]service.Decision, error)
}

func newGated() *gated {
	return &gated{
		began:   make(chan []string),
		proceed: make(chan func(context.Context, service.Call) ([]service.Decision, error)),
	}
}

func (g *gated) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	g.began <- keysOf(call.Checks)
	return (<-g.proceed)(ctx, call)
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
func admit(_ context.Context, call service.Call) ([]service.Decision, error) {
	decisions := make([]service.Decision, len(call.Checks))
	for i, c := range call.Checks {
		decisions[i].Verdicts = []service.Verdict{{Bucket: c.Buckets[0], TxnID: uint64(i + 1)}}
	}
	return decisions, nil
}

func failWith(err error) func(context.Context, service.Call) ([]service.Decision, error) {
	return func(context.Context, service.Call) ([]service.Decision, error) { return nil, err }
}

// inBubble runs a test with a Coalescer in front of a gated store. Time is the
// bubble's; the Coalescer is closed at the end, when nothing may be left.
func inBubble(t *testing.T, o queue.CoalescerOptions, test func(t *testing.T, c *queue.Coalescer, g *gated)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		c := queue.NewCoalescer(g, o)
		test(t, c, g)
		if err := c.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// oneLane is what tests want that are not about lanes.
func oneLane() queue.CoalescerOptions { return queue.CoalescerOptions{Lanes: 1} }

// answer is what one caller got.
type answer struct {
	key      string
	decision service.Decision
	err      error
}

// ask asks a check in a separate goroutine and returns when it waits.
func ask(ctx context.Context, store service.CheckStore, question service.Check) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		d, err := askOne(ctx, store, question)
		answers <- answer{question.Buckets[0].Key, d, err}
	}()
	synctest.Wait()
	return answers
}

// askKeys asks for keys of zone 1, one after the other.
func askKeys(t *testing.T, c *queue.Coalescer, keys ...string) (answers []<-chan answer) {
	t.Helper()
	for _, key := range keys {
		answers = append(answers, ask(t.Context(), c, check(at(1, key))))
	}
	return answers
}

// wantBatch waits for a call of the store and lets it go on.
func (g *gated) wantBatch(
	t *testing.T, proceed func(context.Context, service.Call) ([]service.Decision, error), keys ...string,
) {
	t.Helper()
	if got := <-g.began; !slices.Equal(got, keys) {
		t.Errorf("the store was asked for %q, want %q", got, keys)
	}
	g.proceed <- proceed
}

// serve lets every call go on until the test says so.
func (g *gated) serve(
	proceed func(context.Context, service.Call) ([]service.Decision, error), until <-chan struct{},
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
