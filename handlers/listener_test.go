package handlers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/handlers/handlerstest"
	"velocityd/handlers/wire"
	"velocityd/service"
	"velocityd/service/memory"
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
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &listening{address: inner.Addr().String(), log: &logLines{}}
	if store == nil {
		store = fixed(service.Decision{CheckedAt: service.At(time.Now())})
	}
	memory := memory.New()
	o.Logger = slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.AccessLog = true
	options := Options{
		Limiter: service.NewLimiter(store, service.LimiterOptions{Timeout: time.Minute}), Reader: memory, Writer: memory, Logger: o.Logger,
		AccessLog: true,
	}
	if change != nil {
		change(&options)
	}
	s.server = newServer(options)
	server := wire.NewServer(s.server.serve(s.server.routeCalls, s.server.routeRecords), time.Minute, o.Logger)
	served := make(chan struct{})
	listener := wire.NewListener(inner, o)
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return s
}

// line is a connection of a test's own, on which HTTP/1 is spoken.
type line struct {
	net.Conn
	answers *bufio.Reader
}

func (s *listening) dial(t *testing.T) *line {
	t.Helper()
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &line{Conn: conn, answers: bufio.NewReader(conn)}
}

// ask asks and returns the whole answer. Its error is that of a connection that was
// closed.
func (l *line) ask(request string) (status int, header http.Header, body string, err error) {
	if _, err = io.WriteString(l, request); err != nil {
		return 0, nil, "", err
	}
	return l.answer()
}

func (l *line) answer() (status int, header http.Header, body string, err error) {
	answer, err := http.ReadResponse(l.answers, nil)
	if err != nil {
		return 0, nil, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if answer.Close {
		answer.Header.Set("Connection", "close")
	}
	return answer.StatusCode, answer.Header, string(text), err
}

func (l *line) mustAsk(t *testing.T, request string, want int) http.Header {
	t.Helper()
	status, header, body, err := l.ask(request)
	if err != nil || status != want {
		t.Fatalf("%q: %d %s %v, want %d", request, status, body, err, want)
	}
	return header
}

const askLive = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"

func TestCallersAboveACapOfConnectionsAreRefusedAndOthersServed(t *testing.T) {
	t.Parallel()
	check := asks("/v1/check", bucketJSON(1, "alice"))
	for name, bounds := range map[string]wire.Options{"of all": {MaxConnections: 2}, "of a peer": {MaxConnectionsPerPeer: 2}} {
		s := listenWith(t, nil, bounds, nil)
		old := []*line{s.dial(t), s.dial(t)}
		for range 3 {
			for _, l := range old {
				l.mustAsk(t, check, http.StatusOK)
			}
			status, header, body, err := s.dial(t).ask(check)
			if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(body, `"code":"busy"`) ||
				header.Get("Retry-After") != "1" || header.Get("Connection") != "close" {
				t.Errorf("%s: a caller too many: %d %v %s %v", name, status, header, body, err)
			}
			if header := s.dial(t).mustAsk(t, askLive, http.StatusOK); header.Get("Connection") != "close" {
				t.Errorf("%s: the connection of a probe too many is kept: %v", name, header)
			}
		}
		if bounds.MaxConnections > 0 && !strings.Contains(s.log.String(), "too many connections") {
			t.Errorf("the log does not tell:\n%s", s.log)
		}
		old[0].Close()
		handlerstest.Eventually(t, "a place is free again", func() bool {
			status, _, _, err := s.dial(t).ask(check)
			return err == nil && status == http.StatusOK
		})
		old[1].mustAsk(t, check, http.StatusOK)
	}
}

func TestBodiesInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	const callers, fit = 1500, 128
	for name, framing := range map[string]string{
		"announced": fmt.Sprintf("Content-Length: %d\r\n\r\n{", smallBody), "chunked": "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			pipes := handlerstest.Pipes(make(chan net.Conn))
			s := newServer(Options{
				Limiter: service.NewLimiter(fixed(service.Decision{CheckedAt: service.At(time.Now())}),
					service.LimiterOptions{Timeout: time.Minute}),
				MaxBodyBytes: 2 * fit * smallBody, // half is for one address
			})
			server := wire.NewServer(s.serve(s.routeCalls), time.Minute, nil)
			go func() { _ = server.Serve(wire.NewListener(pipes, wire.Options{})) }()
			dial := func() *line {
				caller, accepted := net.Pipe()
				pipes <- accepted
				return &line{caller, bufio.NewReader(caller)}
			}
			statuses := make(chan int, callers)
			for range callers {
				l := dial()
				handlerstest.MustWrite(t, l, "POST /v1/checks HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"+framing)
				go func() {
					defer l.Close()
					status, header, _, _ := l.answer()
					if status == http.StatusServiceUnavailable && header.Get("Retry-After") != "1" {
						t.Errorf("refused with %v", header)
					}
					statuses <- status
				}()
			}
			synctest.Wait()
			if held := s.bodies.Taken(); held != fit*smallBody || len(statuses) != callers-fit {
				t.Errorf("%s: %d bytes are held, %d callers answered", name, held, len(statuses))
			}
			l := dial()
			l.mustAsk(t, asks("/v1/check", bucketJSON(1, "alice")), http.StatusOK)
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
			close(pipes)
			_ = server.Close()
			time.Sleep(time.Second) // of the bubble's time: net/http lingers with whom it has cut off
		})
	}
}

func TestALargeBodyOfUnknownLengthIsCountedAnew(t *testing.T) {
	t.Parallel()
	counted := make(chan int, 1)
	var s *listening
	s = listenWith(t, func(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
		counted <- s.server.bodies.Taken()
		return fixed(service.Decision{CheckedAt: service.At(time.Now())})(ctx, checks)
	}, wire.Options{}, func(o *Options) { o.MaxBodyBytes = 4 * maxBody })
	l := s.dial(t)
	for body, want := range map[string]int{bucketJSON(1, "a"): 0, strings.Repeat(" ", 2*firstBuffer) + bucketJSON(1, "a"): 2*firstBuffer +
		len(bucketJSON(1, "a"))} {
		l.mustAsk(t, asks("/v1/check", body), http.StatusOK)
		if held := <-counted; held != want {
			t.Errorf("%d bytes count as %d", len(body), held)
		}
	}
	l.mustAsk(t, inChunks("/v1/checks", large("a")), http.StatusOK)
	if held := <-counted; held != maxBody {
		t.Errorf("counted as %d", held)
	}
	if held := s.server.bodies.Taken(); held != 0 {
		t.Errorf("%d bytes are held at the end", held)
	}
}

func TestAnAdminListenerTakesAllButCallsAwayFromTheFirst(t *testing.T) {
	t.Parallel()
	memory := memory.New()
	memory.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	o := Options{
		Limiter: service.NewLimiter(memory, service.LimiterOptions{Zones: memory, Timeout: time.Minute}), Reader: memory, Writer: memory,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") }),
	}
	calls, admin := NewSplit(o)
	whole := New(o)
	ask := func(handler http.Handler, method, path string) int {
		body := map[bool]string{true: bucketJSON(1, "alice"), false: ""}[path == "/v1/check"]
		return status(t, handler, method, path, body)
	}
	for _, c := range []struct {
		path         string
		whole, calls int
	}{
		{"POST /v1/check", 200, 200},
		{"POST /v1/checks", 400, 400},
		{"POST /v1/outcomes", 400, 400},
		{"POST /v1/txns/1/outcome", 400, 400},
		{"GET /livez", 200, 200},
		{"GET /readyz", 200, 200},
		{"GET /", 200, 200},
		{"GET /openapi.yaml", 200, 200},
		{"GET /v1/zones", 200, 404},
		{"GET /v1/zones/1", 200, 404},
		{"PUT /v1/zones/1", 400, 404},
		{"GET /v1/txns/1", 200, 404},
		{"GET /v1/zones/1/buckets/alice", 200, 404},
		{"POST /v1/zones/1/buckets/alice/release", 400, 404},
		{"GET /v1/zones/1/overrides", 200, 404},
		{"GET /metrics", 200, 404},
		{"GET /debug/pprof/", 404, 404},
		{"GET /debug/pprof/goroutine", 404, 404},
		{"GET /debug/pprof/heap", 404, 404},
	} {
		method, path, _ := strings.Cut(c.path, " ")
		if got := ask(whole, method, path); got != c.whole {
			t.Errorf("one listener: %s: %d, want %d", c.path, got, c.whole)
		}
		if got := ask(calls, method, path); got != c.calls {
			t.Errorf("the listener of callers: %s: %d, want %d", c.path, got, c.calls)
		}
		want := c.whole
		if strings.Contains(path, "pprof") {
			want = http.StatusOK
		}
		if got := ask(admin, method, path); got != want {
			t.Errorf("the admin listener: %s: %d, want %d", c.path, got, want)
		}
	}
	for _, none := range []string{"/debug/pprof/cmdline", "/debug/pprof/none", "/debug/pprof"} {
		if got := ask(admin, http.MethodGet, none); got != http.StatusNotFound {
			t.Errorf("%s: %d", none, got)
		}
	}
	o.Metrics = nil
	if got := ask(New(o), http.MethodGet, "/metrics"); got != http.StatusNotFound {
		t.Errorf("metrics where there are none: %d", got)
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
