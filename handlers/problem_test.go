package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/memory"
)

func TestFaultsOfTheStoreHaveTheirStatus(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		status int
		code   string
		retry  string
	}{
		"busy": {fmt.Errorf("check, try 3: %w: Error 1205", service.ErrBusy), 503, "busy", "1"},
		"a full queue": {
			fmt.Errorf("check: %w", &service.BusyError{RetryAfter: 7 * time.Second}), 503, "busy", "7",
		},
		"no secret keys":        {fmt.Errorf("zone 1: %w", service.ErrNoKeys), 503, "no_keys", "1"},
		"undecided":             {fmt.Errorf("check: %w: connection lost", service.ErrUndecided), 504, "undecided", ""},
		"unknown":               {errors.New("Error 1146: table hidden_name is missing"), 500, "internal", ""},
		"account lacks a right": {fmt.Errorf("%w: Error 1370: hidden_name", service.ErrForbidden), 403, "forbidden", ""},
		// A store must say such things of single checks only.
		"invalid as a whole":   {fmt.Errorf("%w: Error 45400: hidden_name", service.ErrInvalid), 500, "internal", ""},
		"not found as a whole": {fmt.Errorf("%w: Error 45404: hidden_name", service.ErrNotFound), 500, "internal", ""},
	} {
		r := startWith(t, func(context.Context, []service.Check) ([]service.Decision, error) { return nil, test.err })
		for path, body := range map[string]string{
			"/v1/check": bucketJSON(1, "alice"), "/v1/checks": `{"checks":[` + bucketJSON(1, "alice") + `,{}]}`,
		} {
			got := r.post(t, path, body)
			p := got.refused(t, test.status, test.code)
			if got.header.Get("Retry-After") != test.retry {
				t.Errorf("%s: Retry-After = %q", name, got.header.Get("Retry-After"))
			}
			if strings.Contains(got.body, "Error 1") || strings.Contains(got.body, "Error 4") ||
				strings.Contains(got.body, "hidden_name") ||
				p.Type != "about:blank" {
				t.Errorf("%s: the caller learns %s", name, got.body)
			}
			level := "ERROR"
			if test.status == http.StatusServiceUnavailable {
				level = "WARN"
			}
			if line := r.log.Last(t); line["level"] != level || !strings.Contains(fmt.Sprint(line["error"]), test.err.Error()) {
				t.Errorf("%s: logged %v", name, line)
			}
		}
	}
}

func TestPanicIsAnsweredAndLogged(t *testing.T) {
	t.Parallel()
	r := startWith(t, func(context.Context, []service.Check) ([]service.Decision, error) {
		panic("hidden: no such luck for alice")
	})
	got := r.post(t, "/v1/check", bucketJSON(1, "alice"))
	if got.refused(t, http.StatusInternalServerError, "internal"); strings.Contains(got.body, "hidden") {
		t.Errorf("the caller learns %s", got.body)
	}
	line := r.log.Last(t)
	if line["error"] != "panic: a value of type string" ||
		!strings.Contains(fmt.Sprint(line["stack"]), "problem_test.go") {
		t.Errorf("logged %v", line)
	}
	if strings.Contains(r.log.String(), "alice") {
		t.Error("the log has the key")
	}
	r.get(t, "/livez")
}

func TestUnknownPathsAreProblems(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	for _, path := range []string{
		"/v1", "/v1/", "/v1/check/", "/v1/checkx", "/V1/check", "/v2/check", "/v1/zones/", "/v1/zones/1/", "/v1/zones/1/2",
		"/v1/txns/", "/v1/zones/1/buckets", "/v1/zones/1/buckets/", "/v1/zones/1/buckets/a/b",
		"/v1/zones/1/buckets/a/release/",
		"/v1/zones/1/overrides/",
		"/v1/txns/1/", "/v1/txns/1/outcome/x", "/openapi.json", "/%2e%2e/etc", "//v1/zones",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			r.ask(t, method, path, "").refused(t, http.StatusNotFound, "route_not_found")
		}
	}
}

func TestWrongMethodsAreToldTheRightOnes(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for path, allowed := range map[string]string{
		"/v1/check": "POST", "/v1/checks": "GET HEAD POST", "/v1/zones": "GET HEAD", "/v1/zones/1": "GET HEAD PUT DELETE",
		"/v1/zones/1/buckets/a": "GET HEAD", "/v1/zones/1/buckets/a/release": "POST",
		"/v1/zones/1/overrides":   "GET HEAD POST",
		"/v1/zones/1/overrides/1": "GET HEAD PUT DELETE", "/v1/txns/1": "GET HEAD", "/v1/txns": "GET HEAD",
		"/v1/txns/follow": "GET HEAD", "/v1/txns/1/outcome": "POST", "/v1/outcomes": "POST",
		"/livez": "GET HEAD", "/readyz": "GET HEAD", "/openapi.yaml": "GET HEAD", "/": "GET HEAD",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "PROPFIND", "NONSENSE"} {
			if strings.Contains(allowed, method) {
				continue
			}
			got := r.ask(t, method, path, "")
			got.refused(t, http.StatusMethodNotAllowed, "method_not_allowed")
			for _, want := range strings.Fields(allowed) {
				if !strings.Contains(got.header.Get("Allow"), want) {
					t.Errorf("%s %s: Allow is %q, want %s in it", method, path, got.header.Get("Allow"), want)
				}
			}
		}
		if got := r.ask(t, http.MethodOptions, path, ""); got.status != http.StatusNoContent ||
			got.header.Get("Allow") == "" {
			t.Errorf("OPTIONS %s: %d, Allow %q", path, got.status, got.header.Get("Allow"))
		}
	}
}

func TestHeadIsGetWithoutTheBody(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	r.post(t, "/v1/check", bucketJSON(1, "alice")).decision(t)
	for _, path := range []string{
		"/v1/zones", "/v1/zones/1", "/v1/zones/7", "/v1/zones/x", "/v1/zones/1/buckets/alice",
		"/v1/zones/1/overrides", "/v1/zones/1/overrides/7", "/v1/txns/1", "/livez", "/readyz", "/openapi.yaml", "/nowhere",
	} {
		get, head := r.get(t, path), r.ask(t, http.MethodHead, path, "")
		if head.status != get.status || head.body != "" || head.header.Get("Content-Type") != get.header.Get("Content-Type") {
			t.Errorf("HEAD %s: %d %s, GET: %d", path, head.status, head.header.Get("Content-Type"), get.status)
		}
		if head.header.Get("Content-Length") != fmt.Sprint(len(get.body)) {
			t.Errorf("HEAD %s: Content-Length %s for %d bytes", path, head.header.Get("Content-Length"), len(get.body))
		}
	}
	r.ask(t, http.MethodHead, "/v1/check", "")
}

func TestCheckIsCompletedWhenItsCallerGoesAway(t *testing.T) {
	t.Parallel()
	memory := memory.New()
	memory.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
	begun, gone, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	handler := New(Options{Reader: memory, Limiter: service.NewLimiter(storeFunc(
		func(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
			close(begun)
			<-gone
			decisions, err := memory.CheckAll(ctx, service.Call{Checks: checks})
			done <- ctx.Err()
			return decisions, err
		}), service.LimiterOptions{Timeout: time.Minute})})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		go func() { <-r.Context().Done(); close(gone) }() // the server has seen it leave
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-begun; leave() }()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/check",
		strings.NewReader(bucketJSON(1, "alice")))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if response, err := http.DefaultClient.Do(request); !errors.Is(err, context.Canceled) {
		response.Body.Close()
		t.Fatalf("the caller did not leave: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("the store was interrupted: %v", err)
	}
	if txns := memory.Txns(bucketOf(1, "alice")); len(txns) != 1 || !txns[0].Counted {
		t.Errorf("recorded %+v, want one counted txn", txns)
	}
}

func TestBodyThatEndsEarlyIsRefused(t *testing.T) {
	t.Parallel()
	memory := memory.New()
	handler := New(
		Options{Reader: memory, Limiter: service.NewLimiter(memory, service.LimiterOptions{Timeout: time.Minute})})
	request := httptest.NewRequest(http.MethodPost, "/v1/check", &brokenBody{})
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	if answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), "ended before it was complete") {
		t.Errorf("got %d %s", answer.Code, answer.Body)
	}
}

type brokenBody struct{}

func (*brokenBody) Read([]byte) (int, error) { return 0, errors.New("connection reset") }
