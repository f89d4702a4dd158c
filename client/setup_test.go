package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"velocityd/client"
	"velocityd/handlers"
	"velocityd/service"
	"velocityd/service/memory"
)

// patience is the deadline of calls that have to succeed; machines may be slow.
const patience = 5 * time.Minute

// newHandler returns the HTTP interface over a store.
func newHandler(m *memory.Store) http.Handler {
	return handlers.New(handlers.Options{
		Limiter: service.NewLimiter(m, service.LimiterOptions{Zones: m, Timeout: time.Minute}), Reader: m,
		Writer: m, Exports: m, Retention: m,
	})
}

// serve answers on a real socket until the test ends.
func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func connect(t *testing.T, url string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(url, append([]client.Option{client.WithTimeout(patience)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// pauses notes how long a client would have waited, and does not wait.
type pauses struct {
	mu      sync.Mutex
	lengths []time.Duration
}

func (p *pauses) pause(ctx context.Context, length time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lengths = append(p.lengths, length)
	return ctx.Err()
}

// one asks about one bucket of zone 1.
func one(key string) service.Check {
	return service.Check{Buckets: []service.Bucket{{ZoneID: 1, Key: key}}}
}

// faults is a handler that fails as its list says, one request after another, and
// then lets requests through to next.
type faults struct {
	mu    sync.Mutex
	list  []http.HandlerFunc
	asked int
	next  http.Handler
}

func (f *faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked++
	var fault http.HandlerFunc
	if len(f.list) > 0 {
		fault, f.list = f.list[0], f.list[1:]
	}
	f.mu.Unlock()
	if fault != nil {
		fault(w, r)
		return
	}
	f.next.ServeHTTP(w, r)
}

// cut ends the connection without an answer.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// problem answers with an error of the service's.
func problem(status int, code string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write(
			[]byte(`{"type":"about:blank","title":"A title","status":1,"detail":"the detail.","code":"` + code + `"}`))
	}
}

// answer answers with 200 and a body.
func answer(media, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		_, _ = w.Write([]byte(body))
	}
}
