package handlers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/event"
	"velocityd/service/explain"
	"velocityd/service/lockout"
	"velocityd/service/memory"
)

func TestLookUpsHaveADeadline(t *testing.T) {
	t.Parallel()
	store := &endingStore{err: context.DeadlineExceeded}
	r := start(t, func(o *Options) { o.Reader, o.Retention = store, store })
	for _, path := range []string{
		"/v1/retention", "/v1/events",
		"/v1/zones", "/v1/zones/1", "/v1/txns/1", "/v1/txns/1/explanation", "/v1/attempts/a", "/v1/zones/1/buckets/alice",
		"/v1/zones/1/overrides",
		"/v1/zones/1/locked", "/v1/zones/1/denied.txt", "/v1/zones/1/overrides/1", "/v1/zones/1/totals",
		"/v1/zones/1/buckets/alice/totals",
	} {
		asked := time.Now()
		p := r.get(t, path).refused(t, http.StatusServiceUnavailable, "busy")
		if store.deadline.Before(asked.Add(lookUpTimeout)) || store.deadline.After(time.Now().Add(lookUpTimeout)) {
			t.Errorf("%s was given %v, want %v", path, store.deadline.Sub(asked), lookUpTimeout)
		}
		if !strings.Contains(p.Detail, "look-up") {
			t.Errorf("detail = %q", p.Detail)
		}
	}
}

// changes are one request of each kind that changes something, in zone 1 which
// has override 1 and txn 1.
func changes() []struct{ method, path, body string } {
	return []struct{ method, path, body string }{
		{"PUT", "/v1/zones/1", `{"rate":1,"window":60}`},
		{"DELETE", "/v1/zones/1", ""},
		{"POST", "/v1/zones/1/buckets/alice/release", `{"reason":"test"}`},
		{"POST", "/v1/zones/1/overrides", `{"bucket_key":"alice","action":"allow"}`},
		{"PUT", "/v1/zones/1/overrides/1", `{"bucket_key":"alice","action":"allow"}`},
		{"DELETE", "/v1/zones/1/overrides/1", ""},
		{"POST", "/v1/txns/1/outcome", `{"outcome":"success"}`},
		{"POST", "/v1/attempts/a/outcome", `{"outcome":"success"}`},
		{"POST", "/v1/outcomes", `{"reports":[{"txn_id":1,"outcome":"success"}]}`},
	}
}

func TestChangesEndUndecidedAtTheirDeadline(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{"given": time.Hour, "default": 0} {
		store := &endingStore{err: context.DeadlineExceeded}
		r := start(t, func(o *Options) { o.Writer, o.WriteTimeout = store, timeout })
		r.zones(t)
		if timeout == 0 {
			timeout = 5 * time.Second
		}
		for _, change := range changes() {
			store.deadline = time.Time{}
			asked := time.Now()
			r.ask(t, change.method, change.path, change.body, "Content-Type", "application/json").
				refused(t, http.StatusGatewayTimeout, "undecided")
			if store.deadline.Before(asked.Add(timeout)) || store.deadline.After(time.Now().Add(timeout)) {
				t.Errorf("%s: %s %s was given %v, want %v", name, change.method, change.path, store.deadline.Sub(asked), timeout)
			}
		}
	}
}

func TestChangesAreCompletedWhenTheirCallerGoesAway(t *testing.T) {
	t.Parallel()
	for _, change := range changes() {
		memory := memory.New()
		memory.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
		ctx, leave := context.WithCancel(t.Context())
		store := &endingStore{err: context.DeadlineExceeded, begun: leave}
		handler := New(Options{Reader: memory, Writer: store})
		ask := func() int {
			request := httptest.NewRequestWithContext(ctx, change.method, change.path, strings.NewReader(change.body))
			request.Header.Set("Content-Type", "application/json")
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			return answer.Code
		}
		if ask(); store.cut != nil || ctx.Err() == nil {
			t.Errorf("%s %s: the store was interrupted: %v", change.method, change.path, store.cut)
		}
		store.deadline = time.Time{}
		if status := ask(); status != http.StatusServiceUnavailable || !store.deadline.IsZero() {
			t.Errorf("%s %s: begun for a caller that had left: %d", change.method, change.path, status)
		}
	}
}

// leaving is a store whose caller goes away while it looks up the zones of an attempt.
type leaving struct {
	*memory.Store
	leave func()
	cut   error
}

func (l *leaving) AttemptZones(ctx context.Context, ids []string) (map[string][]int64, error) {
	l.leave()
	l.cut = ctx.Err()
	return l.Store.AttemptZones(ctx, ids)
}

func TestReportsOfDepartedBoundCallersAreCompleted(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	store := &leaving{Store: memory.New(), leave: leave}
	store.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Counts: service.CountsFailures})
	check := service.Check{AttemptID: "one", Buckets: []service.Bucket{{ZoneID: 1, Key: "alice"}}}
	if _, err := store.CheckAll(t.Context(), service.Call{Checks: []service.Check{check}}); err != nil {
		t.Fatal(err)
	}
	auth, credentials := authOf(t, store)
	token := credentials.AddToken(
		access.Caller{Name: "mail", Scopes: []access.Scope{access.ScopeReport}, Zones: []int64{1}})
	handler := New(Options{Reader: store, Writer: store, Auth: auth})
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/attempts/one/outcome",
		strings.NewReader(`{"outcome":"success"}`))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token.Reveal())
	handler.ServeHTTP(httptest.NewRecorder(), request)
	if txns := store.Txns(check.Buckets[0]); store.cut != nil || ctx.Err() == nil ||
		txns[0].Outcome != service.OutcomeSuccess {
		t.Errorf("the look-up was interrupted: %v; the txns are %+v", store.cut, txns)
	}
}

// endingStore ends every call by an error.
type endingStore struct {
	Reader // these have the methods that no test calls
	Writer
	err      error
	begun    func()    // called when a call has begun, unless nil
	deadline time.Time // of the last call
	cut      error     // why its context was over at its end
}

func (s *endingStore) end(ctx context.Context) error {
	if s.begun != nil {
		s.begun()
	}
	s.deadline, _ = ctx.Deadline()
	s.cut = ctx.Err()
	return s.err
}

func (s *endingStore) Zones(ctx context.Context) ([]service.Zone, error) { return nil, s.end(ctx) }

func (s *endingStore) Locked(ctx context.Context, _ lockout.Query) (lockout.Page, error) {
	return lockout.Page{}, s.end(ctx)
}

func (s *endingStore) Zone(ctx context.Context, _ int64) (service.Zone, error) {
	return service.Zone{}, s.end(ctx)
}

func (s *endingStore) Attempt(ctx context.Context, _ string) (service.Recall, error) {
	return service.Recall{}, s.end(ctx)
}

func (s *endingStore) Events(ctx context.Context, _ event.Query) (event.Page, error) {
	return event.Page{}, s.end(ctx)
}

func (s *endingStore) Txn(ctx context.Context, _ uint64) (service.Txn, error) {
	return service.Txn{}, s.end(ctx)
}

func (s *endingStore) Explain(ctx context.Context, _ uint64) (explain.Explanation, error) {
	return explain.Explanation{}, s.end(ctx)
}

func (s *endingStore) Peek(ctx context.Context, _ service.Bucket) (service.Peek, error) {
	return service.Peek{}, s.end(ctx)
}

func (s *endingStore) Retention(ctx context.Context) (service.Retention, error) {
	return service.Retention{}, s.end(ctx)
}

func (s *endingStore) ZoneTotals(ctx context.Context, _ int64, _ service.TotalsQuery) (service.ZoneTotals, error) {
	return service.ZoneTotals{}, s.end(ctx)
}

func (s *endingStore) BucketTotals(
	ctx context.Context, _ service.Bucket, _ service.TotalsQuery,
) (service.BucketTotals, error) {
	return service.BucketTotals{}, s.end(ctx)
}

func (s *endingStore) Overrides(ctx context.Context, _ int64, _ uint64, _ int) ([]service.Override, error) {
	return nil, s.end(ctx)
}

func (s *endingStore) Override(ctx context.Context, _ int64, _ uint64) (service.Override, error) {
	return service.Override{}, s.end(ctx)
}

func (s *endingStore) ReportAll(ctx context.Context, _ []service.Report) ([]error, error) {
	return nil, s.end(ctx)
}

func (s *endingStore) Release(ctx context.Context, _ service.Bucket, _, _ string) error {
	return s.end(ctx)
}

func (s *endingStore) PutZone(ctx context.Context, _ service.Zone, _ service.Match, _ string) (service.Zone, error) {
	return service.Zone{}, s.end(ctx)
}

func (s *endingStore) DeleteZone(ctx context.Context, _ int64, _ service.Match, _ string) error {
	return s.end(ctx)
}

func (s *endingStore) AddOverride(ctx context.Context, _ service.Override, _ string) (service.Override, error) {
	return service.Override{}, s.end(ctx)
}

func (s *endingStore) SetOverride(ctx context.Context, _ service.Override, _ string) (service.Override, error) {
	return service.Override{}, s.end(ctx)
}

func (s *endingStore) DeleteOverride(ctx context.Context, _ int64, _ uint64, _ string) error {
	return s.end(ctx)
}
