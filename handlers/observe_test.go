package handlers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"velocityd/service"
)

func TestEachAnsweredRequestIsObservedByItsRoute(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []Observed
	r := start(t, func(o *Options) {
		o.Observe = func(_ context.Context, request Observed) {
			mu.Lock()
			defer mu.Unlock()
			if (request.Err != nil) != (request.Status >= 400) {
				t.Errorf("%d of %s, and the error is %v", request.Status, request.Route, request.Err)
			}
			request.Err = nil
			seen = append(seen, request)
		}
	})
	r.zones(t)
	r.post(t, "/v1/check", bucketJSON(1, "alice"))
	r.post(t, "/v1/check", bucketJSON(9, "alice"))
	r.post(t, "/v1/checks", `{"checks":[]}`)
	r.get(t, "/v1/zones/1/buckets/alice")
	r.get(t, "/alice")
	r.get(t, "/v1/gate?zone=1&key=alice")
	r.get(t, "/v1/gate?zone=9&key=alice")
	r.get(t, "/v1/gate?zone=1")
	mu.Lock()
	defer mu.Unlock()
	want := []Observed{
		{Method: "POST", Route: "/v1/check", Status: 200, Refused: ""},
		{Method: "POST", Route: "/v1/check", Status: 404, Refused: ""},
		{Method: "POST", Route: "/v1/checks", Status: 400, Refused: "invalid_request"},
		{Method: "GET", Route: "/v1/zones/:id/buckets/:key", Status: 200, Refused: ""},
		{Method: "GET", Route: "", Status: 404, Refused: ""},
		{Method: "GET", Route: "/v1/gate", Status: 204, Refused: ""},
		{Method: "GET", Route: "/v1/gate", Status: 400, Refused: ""},
		{Method: "GET", Route: "/v1/gate", Status: 400, Refused: "invalid_request"},
	}
	if !slices.Equal(seen, want) {
		t.Errorf("observed %+v, want %+v", seen, want)
	}
}

// inTrace is a handler of the log that notes whether a line has the context of a traced request.
type inTrace struct {
	slog.Handler
	lines chan<- bool
}

type traceKey struct{}

func (h inTrace) Handle(ctx context.Context, _ slog.Record) error {
	h.lines <- ctx.Value(traceKey{}) != nil
	return nil
}

func TestLinesAboutARequestHaveItsContext(t *testing.T) {
	t.Parallel()
	lines := make(chan bool, 10)
	store := storeFunc(func(context.Context, []service.Check) ([]service.Decision, error) {
		return nil, errors.New("no such column")
	})
	handler := New(Options{
		Limiter: service.NewLimiter(store, service.LimiterOptions{Timeout: time.Minute}), AccessLog: true,
		Logger: slog.New(inTrace{slog.NewJSONHandler(&logLines{}, nil), lines}),
	})
	traced := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), traceKey{}, true)))
	})
	r := serve(t, traced)
	r.post(t, "/v1/check", bucketJSON(1, "alice")).refused(t, http.StatusInternalServerError, "internal")
	for _, line := range []string{"request", "request failed"} {
		if !<-lines {
			t.Errorf("the line %q does not have the request's context", line)
		}
	}
}
