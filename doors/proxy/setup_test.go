package proxy_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/client/fake"
	"velocityd/doors/proxy"
	"velocityd/handlers/gate"
	"velocityd/service"
	"velocityd/tools/handlerstest"
)

// Zones of the tests, and their rates.
const (
	userZone    = 1
	addressZone = 2
	userRate    = 3
	addressRate = 20
)

const patience = time.Minute

// direct is a service in this process. held, if there is one, holds reports up.
type direct struct {
	*fake.Service
	held     chan struct{}
	reported chan service.Report
}

func newDirect(tb testing.TB) *direct {
	tb.Helper()
	return &direct{reported: make(chan service.Report, 100), Service: fake.New(tb,
		service.Zone{
			ID: userZone, Rate: userRate, Window: time.Hour, Counts: service.CountsFailures,
			Keys: service.KeyRule{Kind: service.KeyUsername},
		},
		service.Zone{ID: addressZone, Rate: addressRate, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})}
}

// Report implements proxy.Service.
func (d *direct) Report(ctx context.Context, report service.Report) error {
	if d.held != nil {
		<-d.held
	}
	defer func() { d.reported <- report }()
	return d.Service.Report(ctx, report)
}

// next returns the outcome that is reported next.
func (d *direct) next(t *testing.T) service.Outcome {
	t.Helper()
	select {
	case report := <-d.reported:
		return report.Outcome
	case <-time.After(patience):
		t.Fatal("nothing was reported")
		return ""
	}
}

// front is a proxy that answers on a socket.
type front struct {
	url     string
	service *direct
	log     handlerstest.Log
}

// place returns a place of users.
func place(tb testing.TB, kind gate.Kind, name string) gate.Source {
	tb.Helper()
	s, err := gate.NewSource(kind, name)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// all reads texts.
func all[T any](tb testing.TB, read func(string) (T, error), texts ...string) (list []T) {
	tb.Helper()
	for _, text := range texts {
		one, err := read(text)
		if err != nil {
			tb.Fatal(err)
		}
		list = append(list, one)
	}
	return list
}

// newOptions returns the settings of a proxy whose users log in by a form at /login.
func newOptions(tb testing.TB, app string) proxy.Options {
	tb.Helper()
	upstream, err := url.Parse(app)
	if err != nil {
		tb.Fatal(err)
	}
	pages, err := proxy.ParsePages("", "")
	if err != nil {
		tb.Fatal(err)
	}
	return proxy.Options{
		Service: newDirect(tb), Upstream: upstream, Logins: all(tb, proxy.ParseLogin, "POST /login"),
		Users:    []gate.Source{place(tb, gate.Form, "user")},
		UserZone: userZone, AddressZone: addressZone, Pages: pages, MaxBody: 1 << 10, CheckTimeout: patience,
		AnswerTimeout: patience,
		Rules: proxy.Rules{
			Success: all(tb, proxy.ParseRule, "status:200"),
			Failure: all(tb, proxy.ParseRule, "status:401"),
		},
		AccessLog: true, MaxRequests: 100,
	}
}

// stand puts a proxy in front of an application until the end of the test.
func stand(t *testing.T, app http.Handler, change ...func(*proxy.Options)) *front {
	t.Helper()
	server := httptest.NewServer(app)
	t.Cleanup(server.Close)
	o := newOptions(t, server.URL)
	f := &front{}
	o.Logger = slog.New(slog.NewJSONHandler(&f.log, nil))
	for _, apply := range change {
		apply(&o)
	}
	f.service, _ = o.Service.(*direct)
	own := httptest.NewServer(proxy.New(o))
	t.Cleanup(own.Close)
	f.url = own.URL
	return f
}

// awaitLog waits until the log has a text, and returns the log. The line of a request follows its answer.
func (f *front) awaitLog(t *testing.T, text string) string {
	t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(f.log.String(), text); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("the log lacks %s:\n%s", text, &f.log)
		}
	}
	return f.log.String()
}

// reply is an answer as a client sees it.
type reply struct {
	status int
	header http.Header
	body   string
}

// send sends a request with headers in pairs.
func (f *front) send(t *testing.T, method, path, body string, headers ...string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, string(text)}
}

// raw sends a request as it is written, and returns the connection's answers.
func (f *front) raw(t *testing.T, request string) *bufio.Reader {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, request)
	return bufio.NewReader(conn)
}

const ofForm = "application/x-www-form-urlencoded"

// try sends a login by a form.
func (f *front) try(t *testing.T, user, password string, headers ...string) reply {
	t.Helper()
	form := url.Values{"user": {user}, "password": {password}}
	return f.send(t, http.MethodPost, "/login", form.Encode(), append([]string{"Content-Type", ofForm}, headers...)...)
}

// application answers 200 to the right password and 401 to others, and notes what it got.
type application struct {
	mu     sync.Mutex
	bodies []string
	heads  []http.Header
}

func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.bodies, a.heads = append(a.bodies, string(body)), append(a.heads, r.Header)
	a.mu.Unlock()
	if !strings.Contains(string(body), "right") {
		w.WriteHeader(http.StatusUnauthorized)
	}
	_, _ = io.WriteString(w, "the application")
}

func (a *application) seen() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bodies
}
