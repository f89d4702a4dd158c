package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/handlers/wire"
	"velocityd/service"
	"velocityd/service/memory"
	"velocityd/tools/handlerstest"
)

// listening is a service on a real socket, as a process has it.
type listening struct {
	address string
	server  *server
	log     *logLines
}

// listenWith serves checks of zone 1 from store, or from a memory if it is nil.
func listenWith(t *testing.T, store storeFunc, o wire.Options, change func(*Options)) *listening {
	t.Helper()
	s := &listening{log: &logLines{}}
	if store == nil {
		store = fixed(service.Decision{CheckedAt: service.At(time.Now())})
	}
	memory := memory.New()
	o.Logger = slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.AccessLog = true
	options := Options{
		Limiter: service.NewLimiter(store, service.LimiterOptions{Timeout: time.Minute}), Reader: memory, Writer: memory,
		Logger:    o.Logger,
		AccessLog: true,
	}
	if change != nil {
		change(&options)
	}
	s.server = newServer(options)
	server := wire.NewServer(s.server.serve(s.server.routeCalls, s.server.routeRecords), time.Minute, o.Logger)
	s.address = handlerstest.Serve(t, func(inner net.Listener) error { return server.Serve(wire.NewListener(inner, o)) },
		server.Close)
	return s
}

const askLive = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"

func TestCallersAboveConnectionCapAreRefusedOthersServed(t *testing.T) {
	t.Parallel()
	check := handlerstest.Asks("/v1/check", bucketJSON(1, "alice"))
	for name, bounds := range map[string]wire.Options{"of all": {MaxConnections: 2}, "of a peer": {MaxConnectionsPerPeer: 2}} {
		s := listenWith(t, nil, bounds, nil)
		old := []*handlerstest.Line{handlerstest.Dial(t, s.address), handlerstest.Dial(t, s.address)}
		for range 3 {
			for _, l := range old {
				l.MustAsk(t, check, http.StatusOK)
			}
			got, err := handlerstest.Dial(t, s.address).Ask(check)
			if err != nil || got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, `"code":"busy"`) ||
				got.Header.Get("Retry-After") != "1" || !got.Closes {
				t.Errorf("%s: a caller too many: %+v %v", name, got, err)
			}
			if !handlerstest.Dial(t, s.address).MustAsk(t, askLive, http.StatusOK).Closes {
				t.Errorf("%s: the connection of a probe too many is kept", name)
			}
		}
		if bounds.MaxConnections > 0 && !strings.Contains(s.log.String(), "too many connections") {
			t.Errorf("the log does not tell:\n%s", s.log)
		}
		old[0].Close()
		handlerstest.Eventually(t, "a place is free again", func() bool {
			got, err := handlerstest.Dial(t, s.address).Ask(check)
			return err == nil && got.Status == http.StatusOK
		})
		old[1].MustAsk(t, check, http.StatusOK)
	}
}

func TestBodiesInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	const callers, fit = 1500, 128
	for name, framing := range map[string]string{
		"announced": fmt.Sprintf("Content-Length: %d\r\n\r\n{", smallBody),
		"chunked":   "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(Options{
				Limiter: service.NewLimiter(fixed(service.Decision{CheckedAt: service.At(time.Now())}),
					service.LimiterOptions{Timeout: time.Minute}),
				MaxBodyBytes: 2 * fit * smallBody, // half is for one address
			})
			pipes := servePipes(s.serve(s.routeCalls), wire.Options{})
			statuses := make(chan int, callers)
			for range callers {
				l := pipes.dial()
				handlerstest.MustWrite(t, l, "POST /v1/checks HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"+framing)
				go func() {
					defer l.Close()
					got, _ := l.Answer()
					if got.Status == http.StatusServiceUnavailable && got.Header.Get("Retry-After") != "1" {
						t.Errorf("refused with %v", got.Header)
					}
					statuses <- got.Status
				}()
			}
			synctest.Wait()
			if held := s.bodies.Taken(); held != fit*smallBody || len(statuses) != callers-fit {
				t.Errorf("%s: %d bytes are held, %d callers answered", name, held, len(statuses))
			}
			l := pipes.dial()
			l.MustAsk(t, handlerstest.Asks("/v1/check", bucketJSON(1, "alice")), http.StatusOK)
			l.Close()
			time.Sleep(bodyTimeout + time.Second) // of the bubble's time: the held ones are cut off
			synctest.Wait()
			if held := s.bodies.Taken(); held != 0 {
				t.Errorf("%s: %d bytes are held at the end", name, held)
			}
			counts := map[int]int{}
			for range callers {
				counts[<-statuses]++
			}
			if counts[http.StatusServiceUnavailable] != callers-fit || counts[http.StatusRequestTimeout] != fit {
				t.Errorf("%s: answered %v", name, counts)
			}
			pipes.end()
		})
	}
}

func TestLargeBodyOfUnknownLengthIsRecounted(t *testing.T) {
	t.Parallel()
	counted := make(chan int, 1)
	var s *listening
	s = listenWith(t, func(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
		counted <- s.server.bodies.Taken()
		return fixed(service.Decision{CheckedAt: service.At(time.Now())})(ctx, checks)
	}, wire.Options{}, func(o *Options) { o.MaxBodyBytes = 4 * maxBody })
	l := handlerstest.Dial(t, s.address)
	for body, want := range map[string]int{bucketJSON(1, "a"): 0, strings.Repeat(" ", 2*firstBuffer) +
		bucketJSON(1, "a"): 2*firstBuffer +
		len(bucketJSON(1, "a"))} {
		l.MustAsk(t, handlerstest.Asks("/v1/check", body), http.StatusOK)
		if held := <-counted; held != want {
			t.Errorf("%d bytes count as %d", len(body), held)
		}
	}
	l.MustAsk(t, handlerstest.InChunks("/v1/checks", large("a")), http.StatusOK)
	if held := <-counted; held != maxBody {
		t.Errorf("counted as %d", held)
	}
	if held := s.server.bodies.Taken(); held != 0 {
		t.Errorf("%d bytes are held at the end", held)
	}
}

func TestAdminListenerLeavesOnlyCallsToFirst(t *testing.T) {
	t.Parallel()
	o := withAll(Options{})
	calls, admin := NewSplit(o)
	ofCalls := []string{
		"/", "/gate/:name", "/gate/:name/*", "/gate/:name/outcome", "/healthcheck", "/json", "/livez", "/openapi.yaml",
		"/readyz",
		"/v1/attempts/:id/outcome", "/v1/caller", "/v1/check", "/v1/checks", "/v1/events/schema", "/v1/gate", "/v1/outcomes",
		"/v1/txns/:id/outcome",
	}
	routed := func(i *API) (paths []string) {
		for _, route := range i.echo.Routes() {
			paths = append(paths, route.Path)
		}
		slices.Sort(paths)
		return slices.Compact(paths)
	}
	if got := routed(calls); !slices.Equal(got, ofCalls) {
		t.Errorf("the listener of callers has %q", got)
	}
	want := append(routed(New(o)), pathProfiles)
	slices.Sort(want)
	if got := routed(admin); !slices.Equal(got, want) {
		t.Errorf("the admin listener has %q", got)
	}
	for path, want := range map[string]int{
		"/debug/pprof/goroutine": http.StatusOK, "/debug/pprof/cmdline": http.StatusNotFound,
		"/debug/pprof/none": http.StatusNotFound,
		"/debug/pprof":      http.StatusNotFound,
	} {
		if got := status(t, admin, http.MethodGet, path, ""); got != want {
			t.Errorf("%s: %d", path, got)
		}
	}
	o.Metrics = nil
	if slices.Contains(routed(New(o)), pathMetrics) {
		t.Error("there is a path of metrics without any")
	}
}

// status asks a handler without a socket.
func status(t *testing.T, handler http.Handler, method, path, body string) int {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer.Code
}

func TestAProfileEndsWhenTheServiceStops(t *testing.T) {
	t.Parallel()
	running, stop := context.WithCancel(t.Context())
	_, admin := NewSplit(Options{Running: running})
	stop()
	// Without that it would take an hour.
	if got := status(t, admin, http.MethodGet, "/debug/pprof/trace?seconds=3600", ""); got != http.StatusOK {
		t.Errorf("got %d", got)
	}
}
