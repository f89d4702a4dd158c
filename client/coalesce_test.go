package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/client"
	"velocityd/service"
	"velocityd/service/memory"
	"velocityd/tools/servicetest"
)

// gated is a service without a socket, for a bubble. Each request waits until it is let through.
type gated struct {
	*client.Client
	memory *memory.Store
	gate   chan http.HandlerFunc // has the answer in place of the service's, or nil
	mu     sync.Mutex
	asked  []string // the paths
	seen   []client.Observation
}

func newGated(t *testing.T) *gated {
	t.Helper()
	g := &gated{memory: memory.New(), gate: make(chan http.HandlerFunc)}
	g.memory.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	handler := newHandler(g.memory)
	round := transport(func(r *http.Request) (*http.Response, error) {
		httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
		g.mu.Lock()
		g.asked = append(g.asked, r.URL.Path)
		g.mu.Unlock()
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case answer := <-g.gate:
			if answer == nil {
				answer = handler.ServeHTTP
			}
			w := httptest.NewRecorder()
			answer(w, r)
			return w.Result(), nil
		}
	})
	g.Client = connect(t, "http://service", client.WithCoalescing(), client.WithHTTPClient(&http.Client{Transport: round}),
		client.WithObserver(g))
	return g
}

func (g *gated) Observe(_ context.Context, o client.Observation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = append(g.seen, o)
}

// wantAsked fails unless these paths were asked.
func (g *gated) wantAsked(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Equal(g.asked, want) {
		t.Errorf("asked %q, want %q", g.asked, want)
	}
}

// decided is the end of a call of Check.
type decided struct {
	service.Decision
	err error
}

// ask calls Check in a goroutine, and returns when it waits.
func (g *gated) ask(ctx context.Context, check service.Check) <-chan decided {
	end := make(chan decided, 1)
	go func() {
		d, err := g.Check(ctx, check)
		end <- decided{d, err}
	}()
	synctest.Wait()
	return end
}

const (
	pathLone   = "/v1/check"
	pathShared = "/v1/checks"
)

func TestChecksThatMeetShareARequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t)
		ends := []<-chan decided{}
		for range 10 {
			ends = append(ends, g.ask(t.Context(), one("alice")))
		}
		g.wantAsked(t, pathLone)
		g.gate <- nil
		g.wantAsked(t, pathLone, pathShared)
		g.gate <- nil
		ids, passed := map[string]bool{}, 0
		for _, end := range ends {
			d := <-end
			if d.err != nil {
				t.Fatal(d.err)
			}
			if !d.Blocked {
				passed++
			}
		}
		for _, txn := range g.memory.Txns(service.Bucket{ZoneID: 1, Key: "alice"}) {
			ids[txn.AttemptID] = true
		}
		if passed != 5 || len(ids) != 10 {
			t.Errorf("%d of 10 passed, want 5; they have %d ids", passed, len(ids))
		}
		synctest.Wait()
		if n := len(g.seen); n != 10 || g.seen[0].Batch != 1 || g.seen[n-1].Batch != 9 || g.seen[n-1].Attempts != 1 {
			t.Errorf("observed %+v", g.seen)
		}
	})
}

func TestEachCallerOfASharedRequestLeavesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t)
		short := func(length time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), length)
			t.Cleanup(cancel)
			return ctx
		}
		first := g.ask(short(20*time.Millisecond), one("first"))
		queued := g.ask(short(10*time.Millisecond), one("queued"))
		stays := g.ask(t.Context(), one("stays"))
		if d := <-first; !errors.Is(d.err, service.ErrUndecided) || !errors.Is(d.err, context.DeadlineExceeded) {
			t.Errorf("the check that was asked: %v", d.err)
		}
		if d := <-queued; !errors.Is(d.err, service.ErrBusy) || errors.Is(d.err, service.ErrUndecided) {
			t.Errorf("the check that was not asked: %v", d.err)
		}
		g.wantAsked(t, pathLone, pathLone) // the first request ended with its only caller
		g.gate <- nil
		if d := <-stays; d.err != nil || d.Blocked {
			t.Errorf("the caller that stays: %+v", d)
		}
		if txns := g.memory.Txns(service.Bucket{ZoneID: 1, Key: "queued"}); len(txns) != 0 {
			t.Errorf("the check that was not asked is recorded: %+v", txns)
		}
	})
}

func TestASlowSharedRequestIsOvertaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t)
		slow, next, last := g.ask(t.Context(), one("slow")), g.ask(t.Context(), one("b")), g.ask(t.Context(), one("c"))
		time.Sleep(99 * time.Millisecond)
		g.wantAsked(t, pathLone)
		time.Sleep(time.Millisecond)
		g.wantAsked(t, pathLone, pathShared)
		for range 2 {
			g.gate <- nil
		}
		for _, end := range []<-chan decided{slow, next, last} {
			if d := <-end; d.err != nil {
				t.Error(d.err)
			}
		}
	})
}

func TestSharedRequestHasOneErrorPerCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t)
		lead := g.ask(t.Context(), one("lead"))
		unknown := g.ask(t.Context(), service.Check{Buckets: []service.Bucket{{ZoneID: 9, Key: "x"}}})
		fine := g.ask(t.Context(), one("fine"))
		g.gate <- nil
		g.gate <- problem(503, "busy") // to both: each is asked again after a pause
		done := make(chan struct{})
		defer close(done)
		go func() {
			for {
				select {
				case g.gate <- nil:
				case <-done:
					return
				}
			}
		}()
		if d := <-unknown; !errors.Is(d.err, service.ErrNotFound) {
			t.Errorf("of an unknown zone: %v", d.err)
		}
		if d := <-fine; d.err != nil || d.TxnID() == 0 {
			t.Errorf("its neighbour: %+v", d)
		}
		if d := <-lead; d.err != nil {
			t.Error(d.err)
		}
	})
}

// TestManyBucketsGoInSeveralRequests holds that a body stays small.
func TestManyBucketsGoInSeveralRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t)
		ends := []<-chan decided{}
		for i := range 100 {
			check := service.Check{}
			for j := range service.MaxBuckets {
				check.Buckets = append(check.Buckets, service.Bucket{ZoneID: 1, Key: fmt.Sprint(i, "-", j)})
			}
			ends = append(ends, g.ask(t.Context(), check))
		}
		for range 5 { // one, three times 256 / 8, and three
			g.gate <- nil
		}
		for _, end := range ends {
			if d := <-end; d.err != nil {
				t.Fatal(d.err)
			}
		}
		g.wantAsked(t, pathLone, pathShared, pathShared, pathShared, pathShared)
	})
}

// TestSharedChecksKeepTheContractOfAStore asks for claims about attempt ids: checks without one share no request here.
func TestSharedChecksKeepTheContractOfAStore(t *testing.T) {
	t.Parallel()
	servicetest.ExerciseSome(t, func(t *testing.T) servicetest.Subject {
		m := memory.New()
		return servicetest.Through(servicetest.InMemory(m),
			lone{connect(t, serve(t, newHandler(m)), client.WithCoalescing())})
	}, []string{
		"RetriedCheckIsCountedOnce", "RetryIsAnsweredAsBeforeWhateverChanged", "AttemptIDWithOtherBucketsIsAConflict",
		"AttemptIDsAreComparedByteByByte", "RefusedCheckDoesNotUseItsAttemptID", "ParallelRetriesGetOneAnswer",
		"ParallelUsesOfOneAttemptIDAgreeOnItsBuckets", "OutcomeRacingWithItsCheckIsTakenOrNotFound",
		"OutcomeByAttemptIDOfABlockedAttemptIsAConflict", "AttemptIsRecalledAsItWasAnswered",
	})
}
