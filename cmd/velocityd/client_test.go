package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/handlers"
	"velocityd/service"
	"velocityd/service/servicetest"
)

// overRemote is the reference store, asked through HTTP by the program's client.
type overRemote struct {
	servicetest.Bench
	remote *remote
}

func (o overRemote) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	return o.remote.CheckAll(ctx, checks)
}

func (o overRemote) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	return o.remote.ReportAll(ctx, reports)
}

func connectTo(t *testing.T, url string) *remote {
	t.Helper()
	r, err := newRemote(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r
}

func TestRemoteKeepsTheContractOfAStore(t *testing.T) {
	t.Parallel()
	servicetest.Exercise(t, func(t *testing.T) servicetest.Bench {
		m := servicetest.NewMemory()
		server := httptest.NewServer(handlers.New(handlers.Options{
			Limiter: service.NewNormalizingLimiter(m, m, time.Minute), Reader: m, Writer: m,
		}))
		t.Cleanup(server.Close)
		return overRemote{Bench: m.Bench(), remote: connectTo(t, server.URL)}
	})
}

func TestRemoteTellsWhatAnErrorMeansForTheAttempt(t *testing.T) {
	t.Parallel()
	problem := func(status int, code string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"type":"about:blank","title":"A title","status":%d,"detail":"the detail.","code":%q}`, status, code)
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		kind   error
		text   string
	}{
		"busy":         {problem(503, "busy"), service.ErrBusy, "A title: the detail."},
		"undecided":    {problem(504, "undecided"), service.ErrUndecided, "A title: the detail."},
		"invalid":      {problem(400, "invalid_request"), service.ErrInvalid, "A title: the detail."},
		"forbidden":    {problem(403, "forbidden"), service.ErrForbidden, "A title: the detail."},
		"too large":    {problem(413, "payload_too_large"), nil, "A title: the detail."},
		"a proxy":      {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", 502) }, service.ErrUndecided, "502"},
		"another site": {http.NotFound, nil, "is this a velocityd?"},
		"a redirect":   {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", 307) }, nil, "307"},
		"no JSON":      {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }, service.ErrUndecided, ""},
		"too few":      {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"results":[]}`) }, service.ErrUndecided, "0 answers to 1"},
		"empty": {
			func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"results":[{}]}`) }, service.ErrUndecided, "does not fit",
		},
		"cut off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, service.ErrUndecided, ""},
		"no answer": {
			func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // only then the server sees the caller leave
				<-r.Context().Done()
			}, service.ErrUndecided, "deadline",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(c.answer)
			t.Cleanup(server.Close)
			timeout := patience
			if name == "no answer" {
				timeout = 3 * time.Second
			}
			limiter := service.NewLimiter(connectTo(t, server.URL), timeout)
			_, err := limiter.CheckAll(t.Context(), []service.Check{{Buckets: []service.Bucket{{ZoneID: 1, Key: "secret-key"}}}})
			if err == nil || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "secret-key") {
				t.Errorf("got %v, want %q", err, c.text)
			}
			for _, kind := range []error{service.ErrBusy, service.ErrUndecided, service.ErrInvalid, service.ErrNotFound, service.ErrForbidden} {
				if errors.Is(err, kind) != slices.Contains([]error{c.kind}, kind) {
					t.Errorf("%v: is it %v?", err, kind)
				}
			}
		})
	}
}

func TestRemoteTellsWhatAnErrorMeansForTheReports(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		answer string
		kind   error
		text   string
	}{
		"busy":       {503, `{"title":"A title","detail":"the detail.","code":"busy"}`, service.ErrBusy, "A title: the detail."},
		"invalid":    {400, `{"title":"A title","detail":"the detail.","code":"invalid_request"}`, service.ErrInvalid, "A title"},
		"too few":    {200, `{"results":[]}`, service.ErrUndecided, "0 answers to 1"},
		"empty":      {200, `{"results":[{}]}`, service.ErrUndecided, "does not fit"},
		"of another": {200, `{"results":[{"txn_id":8,"outcome":"success"}]}`, service.ErrUndecided, "does not fit"},
		"no JSON":    {200, `hello`, service.ErrUndecided, "read answer"},
		"a proxy":    {502, `oops`, service.ErrUndecided, "502"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/outcomes" {
				t.Errorf("asked %s", r.URL.Path)
			}
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.answer)
		}))
		_, err := connectTo(t, server.URL).ReportAll(t.Context(), []service.Report{{TxnID: 7, Outcome: service.OutcomeSuccess}})
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v, want %q", name, err, c.text)
		}
		server.Close()
	}
}

func TestRemoteThatIsAwayHasDecidedNothing(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := connectTo(t, server.URL).CheckAll(t.Context(), []service.Check{{}})
	if !errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrUndecided) {
		t.Errorf("got %v, want ErrBusy", err)
	}
}

func TestRemoteKeepsAPathInFront(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"http://h:1": "http://h:1/v1/checks", "http://h:1/": "http://h:1/v1/checks", "https://h/velocity/": "https://h/velocity/v1/checks",
	} {
		if r := connectTo(t, base); r.endpoint != want || r.outcomes != strings.TrimSuffix(want, "checks")+"outcomes" {
			t.Errorf("%s: asks %s and %s", base, r.endpoint, r.outcomes)
		}
	}
	for _, bad := range []string{"", "h:1", "ftp://h", "http://", "127.0.0.1:8080", "http://h:x", "/v1"} {
		if _, err := newRemote(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
