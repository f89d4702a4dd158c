package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/client"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/memory"
)

func TestErrorsTellTheFateOfTheAttempt(t *testing.T) {
	t.Parallel()
	const results = `{"results":[%s]}`
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		kind   error
		text   string
	}{
		"busy":         {problem(503, "busy"), service.ErrBusy, "A title: the detail."},
		"undecided":    {problem(504, "undecided"), service.ErrUndecided, "A title: the detail."},
		"invalid":      {problem(400, "invalid_request"), service.ErrInvalid, "A title: the detail."},
		"forbidden":    {problem(403, "forbidden"), service.ErrForbidden, "A title: the detail."},
		"no token":     {problem(401, "unauthenticated"), access.ErrUnauthenticated, "A title: the detail."},
		"no scope":     {problem(403, "missing_scope"), access.ErrMissingScope, "A title: the detail."},
		"too large":    {problem(413, "payload_too_large"), api.ErrTooLarge, "A title: the detail."},
		"internal":     {problem(500, "internal"), api.ErrInternal, "A title: the detail."},
		"no code":      {problem(403, ""), nil, "A title: the detail."},
		"no code, 503": {problem(503, ""), service.ErrUndecided, "A title: the detail."},
		"unknown code": {problem(422, "of_next_year"), nil, "A title: the detail."},
		"a proxy": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", 502) }, service.ErrUndecided,
			"502",
		},
		"another site": {http.NotFound, nil, "is there a velocityd at this address?"},
		"a redirect":   {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", 307) }, nil, "307"},
		"HTML":         {answer("text/html; charset=utf-8", "<p>secret-key"), service.ErrUndecided, "text/html"},
		"no JSON":      {answer("application/json", "secret-key"), service.ErrUndecided, "byte 1"},
		"another type": {
			answer("application/json", `{"results":"secret-key"}`), service.ErrUndecided,
			"results has another type",
		},
		"no instant": {
			answer("application/json", fmt.Sprintf(results, `{"decision":{"checked_at":"secret-key"}}`)), service.ErrUndecided,
			"another form",
		},
		"too few": {answer("application/json", fmt.Sprintf(results, "")), service.ErrUndecided, "0 answers to 1"},
		"empty":   {answer("application/json", fmt.Sprintf(results, "{}")), service.ErrUndecided, "either"},
		"other buckets": {
			answer("application/json", fmt.Sprintf(results, `{"decision":{"buckets":[{"zone_id":9}]}}`)), service.ErrUndecided,
			"does not fit",
		},
		"cut off":  {cut, service.ErrUndecided, "no answer"},
		"too long": {answer("application/json", strings.Repeat(" ", 5000)), service.ErrUndecided, "longer than 4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := connect(t, serve(t, c.answer), client.WithMaxAnswer(4096)).CheckAll(
				t.Context(), []service.Check{one("secret-key")})
			if err == nil || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "secret-key") {
				t.Errorf("got %v, want %q", err, c.text)
			}
			for _, kind := range []error{
				service.ErrBusy, service.ErrUndecided, service.ErrInvalid, service.ErrNotFound, service.ErrForbidden,
				api.ErrTooLarge, api.ErrInternal,
			} {
				if errors.Is(err, kind) != slices.Contains([]error{c.kind}, kind) {
					t.Errorf("%v: is it %v?", err, kind)
				}
			}
			var said *api.Problem
			if errors.As(err, &said) != strings.Contains(c.text, "A title") {
				t.Errorf("%v: a problem is %+v", err, said)
			}
		})
	}
}

func TestErrorsTellTheFateOfTheReports(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		kind   error
		text   string
	}{
		"busy":    {problem(503, "busy"), service.ErrBusy, "A title: the detail."},
		"too few": {answer("application/json", `{"results":[]}`), service.ErrUndecided, "0 answers to 1"},
		"empty":   {answer("application/json", `{"results":[{}]}`), service.ErrUndecided, "does not fit"},
		"of another": {
			answer("application/json", `{"results":[{"txn_id":"8","outcome":"success"}]}`), service.ErrUndecided,
			"does not fit",
		},
		"no JSON": {answer("application/json", `hello`), service.ErrUndecided, "invalid JSON"},
	} {
		_, err := connect(t, serve(t, c.answer)).ReportAll(
			t.Context(), []service.Report{{TxnID: 7, Outcome: service.OutcomeSuccess}})
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v, want %q", name, err, c.text)
		}
	}
}

func TestLookUpWithLostAnswerChangedNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		busy   bool
	}{
		"cut off": {cut, true},
		"a proxy": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", 502) }, true},
		"HTML":    {answer("text/html", "<p>"), false}, "another zone": {answer("application/json", `{"id":2}`), false},
		"null": {answer("application/json", `null`), false},
	} {
		_, err := connect(t, serve(t, c.answer)).Zone(t.Context(), 1)
		if err == nil || errors.Is(err, service.ErrBusy) != c.busy || errors.Is(err, service.ErrUndecided) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAServiceThatIsAwayHasDecidedNothing(t *testing.T) {
	t.Parallel()
	waited := errors.New("waited")
	c := connect(t, "http://me:hunter2@127.0.0.1:1",
		client.WithPause(func(context.Context, time.Duration) error { return waited }))
	for name, ask := range map[string]func() error{
		"check":  func() error { _, err := c.Check(t.Context(), one("alice")); return err },
		"checks": func() error { _, err := c.CheckAll(t.Context(), []service.Check{one("alice")}); return err },
		"zones":  func() error { _, err := c.Zones(t.Context()); return err },
		"delete": func() error { return c.DeleteZone(t.Context(), 1, service.Match{}, "") },
	} {
		err := ask()
		if !errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrUndecided) {
			t.Errorf("%s: got %v, want ErrBusy", name, err)
		}
		if text := err.Error(); !strings.Contains(text, "nothing listens at http://me:xxxxx@127.0.0.1:1:") ||
			strings.Contains(text, "hunter2") ||
			!strings.Contains(text, "is velocityd running?") {
			t.Errorf("%s: says %s", name, text)
		}
		if errors.Is(err, waited) != (name == "check") {
			t.Errorf("%s: wanted to ask again: %v", name, errors.Is(err, waited))
		}
	}
}

func TestInvalidRequestsAreNotSent(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("was asked") })))
	ctx := t.Context()
	bad := service.Bucket{ZoneID: 1, Key: "\xff"}
	for name, ask := range map[string]func() error{
		"check":     func() error { _, err := c.Check(ctx, service.Check{Buckets: []service.Bucket{bad}}); return err },
		"no bucket": func() error { _, err := c.Check(ctx, service.Check{}); return err },
		"peek":      func() error { _, err := c.Peek(ctx, bad); return err },
		"release":   func() error { return c.Release(ctx, service.Bucket{ZoneID: 1, Key: "a"}, "", "\xff") },
		"report":    func() error { return c.Report(ctx, service.Report{TxnID: 1, Outcome: "maybe"}) },
		"zone": func() error {
			_, err := c.PutZone(ctx, service.Zone{ID: 1, Window: time.Second, Description: "\xff"}, service.Match{}, "")
			return err
		},
		"override": func() error { _, err := c.AddOverride(ctx, service.Override{ZoneID: 1, Key: "\xff"}, ""); return err },
		"principal": func() error {
			return c.DeleteZone(ctx, 1, service.Match{}, "carol\r\nX-Forwarded-For: x")
		},
	} {
		if err := ask(); !errors.Is(err, service.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if decisions, err := c.CheckAll(ctx, []service.Check{{}, {Buckets: []service.Bucket{bad}}}); err != nil ||
		!errors.Is(decisions[0].Err, service.ErrInvalid) || !errors.Is(decisions[1].Err, service.ErrInvalid) {
		t.Errorf("checks: %+v, %v", decisions, err)
	}
}

func TestAddressOfAService(t *testing.T) {
	t.Parallel()
	var path, agent string
	url := serve(
		t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { path, agent = r.URL.Path, r.UserAgent() }))
	for base, want := range map[string]string{url: "/v1/zones", url + "/": "/v1/zones", url + "/velocity/": "/velocity/v1/zones"} {
		_, _ = connect(t, base, client.WithUserAgent("login/2")).Zones(t.Context())
		if path != want || agent != "login/2" {
			t.Errorf("%s: asks %s as %s, want %s", base, path, agent, want)
		}
	}
	for _, bad := range []string{
		"", "h:1", "ftp://h", "http://", "127.0.0.1:8080", "http://h:x", "/v1", "http://h?a=b", "http://h#a",
		"http://h?", "http://h#",
	} {
		if _, err := client.New(bad); !errors.Is(err, service.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := client.New(url, client.WithUserAgent("a\nb")); !errors.Is(err, service.ErrInvalid) {
		t.Errorf("User-Agent of two lines: %v", err)
	}
}

func TestManyCallersShareOneClientAndItsConnections(t *testing.T) {
	t.Parallel()
	const callers, each, rate = 64, 20, 100
	m := memory.New()
	m.SetZone(t, service.Zone{ID: 1, Rate: rate, Window: time.Hour})
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(newHandler(m))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	c := connect(t, server.URL)
	var group sync.WaitGroup
	var mu sync.Mutex
	allowed := 0
	for range callers {
		group.Go(func() {
			for range each {
				d, err := c.Check(context.Background(), one("alice"))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if !d.Blocked {
					allowed++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if got := len(m.Txns(service.Bucket{ZoneID: 1, Key: "alice"})); allowed != rate || got != callers*each {
		t.Errorf("allowed %d of %d txns, want %d of %d", allowed, got, rate, callers*each)
	}
	// One that is set up for a caller who gets another's in the end is kept as well.
	if got := connections.Load(); got > 2*callers {
		t.Errorf("%d callers made %d connections", callers, got)
	}
}
