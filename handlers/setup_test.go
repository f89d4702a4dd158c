package handlers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"velocityd/api"
	"velocityd/doors/envoy"
	"velocityd/handlers/wire"
	"velocityd/service"
	"velocityd/service/backtest"
	"velocityd/service/memory"
	"velocityd/tools/handlerstest"
	"velocityd/tools/servicetest"
)

// running is a service on a real socket, or on pipes in a bubble, over the reference store.
type running struct {
	*memory.Store
	url  string
	http *http.Client
	log  *logLines
	jobs *testJobs
}

// start serves with options that are complete but for what change sets. The log
// is kept from debug level on, and has every request.
func start(t *testing.T, change func(*Options)) *running {
	t.Helper()
	return startBy(t, serve, change)
}

// startBy is start with serve or servePiped.
func startBy(t *testing.T, by func(*testing.T, http.Handler) *running, change func(*Options)) *running {
	t.Helper()
	r := &running{Store: memory.New(), log: &logLines{}}
	r.jobs = newTestJobs(r.Store)
	runner := backtest.NewRunner(r.jobs, r.jobs, backtest.JobTime,
		func(err error) { t.Errorf("fault of a back-test: %v", err) })
	t.Cleanup(runner.Close)
	o := Options{
		Limiter: service.NewLimiter(r.Store, service.LimiterOptions{Zones: r.Store, Timeout: 10 * time.Second}),
		Reader:  r.Store, Writer: r.Store, Exports: r.Store, Retention: r.Store, Backtests: runner,
		Webhooks: r.Store, Registry: &servicetest.Credentials{},
		Logger:    slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		AccessLog: true,
	}
	o = withAll(o)
	if change != nil {
		change(&o)
	}
	served := by(t, New(o))
	r.url, r.http = served.url, served.http
	return r
}

// withAll has the paths of what an instance tells of itself, too.
func withAll(o Options) Options {
	o.RateLimits = envoy.NewJSON(envoy.Options{Limiter: o.Limiter, Buckets: o.Reader})
	o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8; escaping=underscores")
		_, _ = io.WriteString(w, "velocityd_ready 1\n")
	})
	o.Examine = func(context.Context) ([]service.Diagnosis, error) {
		return []service.Diagnosis{
			{Level: "ok", About: "zones", Is: "nothing is unusual"},
			{Level: "fault", About: "clock", Is: "late", Do: "set it"},
		}, nil
	}
	return o
}

// serve serves a handler that has no store of its own.
func serve(t *testing.T, handler http.Handler) *running {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &running{url: server.URL, http: http.DefaultClient}
}

// servePiped is serve by pipes, so that a bubble's clock is that of both sides.
func servePiped(t *testing.T, handler http.Handler) *running {
	t.Helper()
	pipes := servePipes(handler, wire.Options{})
	t.Cleanup(pipes.end)
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return pipes.dial().Conn, nil },
	}}
	t.Cleanup(client.CloseIdleConnections)
	return &running{url: "http://pipes", http: client}
}

// startWith serves checks from store.
func startWith(t *testing.T, store storeFunc) *running {
	t.Helper()
	return start(t, func(o *Options) {
		o.Limiter = service.NewLimiter(store, service.LimiterOptions{Timeout: 10 * time.Second})
	})
}

// storeFunc is a store that ends as a test wants.
type storeFunc func(ctx context.Context, checks []service.Check) ([]service.Decision, error)

func (f storeFunc) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	return f(ctx, call.Checks)
}

// reply is an answer, read in full.
type reply struct {
	status int
	header http.Header
	body   string
	asked  string // the request, for failures
}

// ask sends a request, as send does.
func (r *running) ask(t *testing.T, method, path, body string, headers ...string) reply {
	t.Helper()
	return sendBy(t, r.http, r.request(t, method, path, body, headers...))
}

// request returns a request with headers, of which Host may be one.
func (r *running) request(t *testing.T, method, path, body string, headers ...string) *http.Request {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, r.url+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	request.Host = cmp.Or(request.Header.Get("Host"), request.Host)
	request.Header.Del("Host")
	return request
}

// send sends a request and holds the answer against openapi.yaml.
func send(t *testing.T, request *http.Request) reply {
	t.Helper()
	return sendBy(t, http.DefaultClient, request)
}

// sendBy is send with a client.
func sendBy(t *testing.T, client *http.Client, request *http.Request) reply {
	t.Helper()
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	asked := fmt.Sprint(request.Method, " ", request.URL.RequestURI(), " ", request.Header)
	got := reply{response.StatusCode, response.Header, string(answer), asked}
	described(t).holds(t, request.Method, request.URL.RequestURI(), got)
	return got
}

func (r *running) get(t *testing.T, path string) reply {
	t.Helper()
	return r.ask(t, http.MethodGet, path, "")
}

func (r *running) post(t *testing.T, path, body string, headers ...string) reply {
	t.Helper()
	return r.ask(t, http.MethodPost, path, body, append(headers, "Content-Type", "application/json")...)
}

func (r *running) put(t *testing.T, path, body string, headers ...string) reply {
	t.Helper()
	return r.ask(t, http.MethodPut, path, body, append(headers, "Content-Type", "application/json")...)
}

func (r *running) delete(t *testing.T, path string, headers ...string) reply {
	t.Helper()
	return r.ask(t, http.MethodDelete, path, "", headers...)
}

// problem returns the answer as a problem, and fails if it is none.
func (r reply) problem(t *testing.T) api.Problem {
	t.Helper()
	var p api.Problem
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("status %d with content type %q and body %s, want a problem", r.status, got, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		t.Fatalf("problem %s: %v", r.body, err)
	}
	if p.Status != r.status || p.Title != http.StatusText(r.status) {
		t.Errorf("status is %d, but the problem says %d %q", r.status, p.Status, p.Title)
	}
	return p
}

// answered fails unless the answer has a status and all of some texts.
func (r reply) answered(t *testing.T, want int, texts ...string) {
	t.Helper()
	lacks := func(text string) bool { return !strings.Contains(r.body, text) }
	if r.status != want || slices.ContainsFunc(texts, lacks) {
		t.Errorf("%s: got %d %s, want %d with %q", r.asked, r.status, r.body, want, texts)
	}
}

// refused fails unless the answer is the problem of this status and code.
func (r reply) refused(t *testing.T, status int, code string) api.Problem {
	t.Helper()
	p := r.problem(t)
	if r.status != status || p.Code != code {
		t.Errorf("%s: got %d %s, want %d and code %s", r.asked, r.status, r.body, status, code)
	}
	return p
}

// read returns the answer of a request that was carried out.
func read[T any](t *testing.T, r reply) (answer T) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), &answer); err != nil || r.status >= http.StatusMultipleChoices {
		t.Fatalf("%s: got %d %.300s, %v", r.asked, r.status, r.body, err)
	}
	return answer
}

// decision returns the answer of a check that was decided.
func (r reply) decision(t *testing.T) service.Decision {
	t.Helper()
	return read[service.Decision](t, r)
}

// logLines is a log of lines in JSON.
type logLines struct{ handlerstest.Log }

// lastRequest returns the newest line of the access log, and how many there are.
func (l *logLines) lastRequest(t *testing.T) (line map[string]any, lines int) {
	t.Helper()
	for text := range strings.Lines(l.String()) {
		if strings.Contains(text, `"msg":"request"`) {
			line, lines = map[string]any{}, lines+1
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				t.Fatalf("log line %q: %v", text, err)
			}
		}
	}
	return line, lines
}

// quoted returns s as JSON.
func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// newEcho returns the router of New.
func newEcho(o Options) *echo.Echo {
	s := newServer(o)
	return s.serve(s.routeCalls, s.routeRecords).echo
}
