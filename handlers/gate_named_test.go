package handlers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"velocityd/handlers/gate"
	"velocityd/service"
	"velocityd/service/access"
)

// namedGates are the gates of a file.
func namedGates(t *testing.T) gate.File {
	t.Helper()
	file, err := gate.Parse([]byte(threeGates))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

const threeGates = `gates:
  login:
    buckets: [{zone: 1, key: {form: username}}, {zone: 2, key: {client: address}}]
    attempt: {header: X-Request-Id}
    deny: 429
  envoy:
    buckets: [{zone: 1, key: {basic: user}}]
    allow: 200
  open:
    buckets: [{zone: 1, key: {header: X-User}}]
    busy: allow
  shut:
    buckets: [{zone: 1, key: {header: X-User}}]
    busy: deny
`

func TestNamedGateTakesItsKeysFromRequest(t *testing.T) {
	t.Parallel()
	r := startGate(t, func(o *Options) { o.Gates = namedGates(t) })
	for i, want := range []int{204, 204, 429} {
		got := r.ask(t, http.MethodPost, "/gate/login", "username=al%69ce&password=secret", "Content-Type",
			"application/x-www-form-urlencoded",
			"X-Request-Id", fmt.Sprint("id", i), "X-Forwarded-For", "198.51.100.7", "Origin", "https://app.example",
			"Sec-Fetch-Site", "cross-site")
		if got.status != want || got.header.Get("X-Velocity-Attempt-Id") != fmt.Sprint("id", i) {
			t.Errorf("attempt %d: %d %v, want %d", i, got.status, got.header, want)
		}
	}
	for _, bucket := range []service.Bucket{{ZoneID: 1, Key: "alice"}, {ZoneID: 2, Key: "198.51.100.7"}} {
		if peek, err := r.Peek(t.Context(), bucket); err != nil || peek.Velocity != 2 {
			t.Errorf("%v has %d, %v", bucket, peek.Velocity, err)
		}
	}
	for i, path := range []string{
		"/gate/envoy", "/gate/envoy/", "/gate/envoy/app/login?deny=429&x=%zz",
		"/gate/envoy/a//b/%2e%2e/c",
	} {
		got := r.ask(t, http.MethodGet, path, "", "Authorization", "Basic Ym9iOnNlY3JldA==")
		if want := []int{200, 200, 403, 403}[i]; got.status != want || got.status == 200 &&
			got.header.Get("Content-Length") != "0" {
			t.Errorf("%s: %d %v, want %d", path, got.status, got.header, want)
		}
	}
	if text := r.log.String(); strings.Contains(text, "secret") || strings.Contains(text, "Ym9i") ||
		strings.Contains(text, "alice") ||
		!strings.Contains(text, `"route":"/gate/:name/*"`) {
		t.Errorf("logged %s", text)
	}
}

func TestWrongRequestsAtNamedGatesAre400(t *testing.T) {
	t.Parallel()
	r := startGate(t, func(o *Options) { o.Gates = namedGates(t) })
	long := "username=" + strings.Repeat("x", gate.MaxBody)
	for _, c := range []struct{ path, body, code, text string }{
		{"/gate/nobody", "", "not_found", "no gate of this name"},
		{"/gate//x", "", "route_not_found", ""},
		{"/gate/login", "", "invalid_request", "the form field username is missing or empty"},
		{"/gate/login?deny=1", "username=a", "invalid_request", "401, 403 or 429"},
		{"/gate/login", long, "payload_too_large", "at most 65536 bytes"},
		{"/gate/login", "username=a&username=b", "invalid_request", "several times"},
	} {
		p := r.ask(t, http.MethodPost, c.path, c.body).refused(t, http.StatusBadRequest, c.code)
		if !strings.Contains(p.Detail, c.text) {
			t.Errorf("%s: %s, want %s", c.path, p.Detail, c.text)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/gate/login",
		io.MultiReader(strings.NewReader(long)))
	if err != nil {
		t.Fatal(err)
	}
	send(t, request).refused(t, http.StatusBadRequest, "payload_too_large") // without a length
	none := startGate(t, nil)
	none.get(t, "/gate/login").refused(t, http.StatusBadRequest, "not_found")
}

func TestUndecidedNamedGateAnswersAsItsFileSays(t *testing.T) {
	t.Parallel()
	for _, fault := range []error{service.ErrBusy, service.ErrUndecided, service.ErrForbidden} {
		r := start(t, func(o *Options) {
			o.Limiter = service.NewLimiter(
				storeFunc(func(context.Context, []service.Check) ([]service.Decision, error) { return nil, fault }),
				service.LimiterOptions{Timeout: time.Minute})
			o.Gates = namedGates(t)
		})
		for name, want := range map[string]int{"open": http.StatusNoContent, "shut": http.StatusForbidden} {
			before := len(r.log.String())
			got := r.ask(t, http.MethodGet, "/gate/"+name, "", "X-User", "alice")
			if got.status != want || got.header.Get("X-Velocity-Txn-Id") != "" ||
				(got.header.Get("Retry-After") != "") != (name == "shut") {
				t.Errorf("%v, %s: %d %v, want %d", fault, name, got.status, got.header, want)
			}
			if text := r.log.String()[before:]; !strings.Contains(text, `"code":"`) {
				t.Errorf("%v, %s: the fault is not logged: %s", fault, name, text)
			}
		}
		r.ask(t, http.MethodGet, "/gate/open", "").answered(t, http.StatusBadRequest)
	}
}

func TestGateWithoutDatabaseAnswersByChecksZones(t *testing.T) {
	t.Parallel()
	r := startWith(t, degraded)
	for zone, want := range map[int]int{1: 204, 2: 403} {
		got := r.get(t, fmt.Sprintf("/v1/gate?zone=%d&key=alice", zone))
		if got.status != want || got.header.Get("X-Velocity-Txn-Id") != "" || got.header.Get("RateLimit") != "" {
			t.Errorf("zone %d: %d %v, want %d", zone, got.status, got.header, want)
		}
	}
}

func TestGatewayReportsByAttemptIDOfItsCheck(t *testing.T) {
	t.Parallel()
	r := startGate(t, func(o *Options) { o.Gates = namedGates(t) })
	r.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Counts: service.CountsFailures})
	r.SetZone(t, service.Zone{ID: 2, Rate: 100, Window: time.Hour})
	ask := func(path, body string, headers ...string) reply {
		return r.ask(t, http.MethodPost, path, body, headers...)
	}
	const form = "username=alice"
	for i := range 3 { // a success does not count
		id := fmt.Sprint("id", i)
		if got := ask("/gate/login", form, "X-Request-Id", id); got.status != http.StatusNoContent {
			t.Fatalf("login %d: %d %s", i, got.status, got.body)
		}
		if got := ask("/gate/login/outcome?outcome=success", "", "X-Request-Id", id); got.status != http.StatusNoContent ||
			got.body != "" {
			t.Errorf("report %d: %d %s", i, got.status, got.body)
		}
	}
	ask("/gate/login/outcome?outcome=failure", "", "X-Request-Id", "id0").refused(t, http.StatusConflict, "conflict")
	ask("/gate/login/outcome?outcome=failure", "", "X-Request-Id", "unknown").refused(t, http.StatusNotFound, "not_found")
	for _, c := range []struct {
		path    string
		headers []string
		text    string
	}{
		{"/gate/login/outcome?outcome=success", nil, "the header X-Request-Id is missing or empty"},
		{"/gate/login/outcome?outcome=won", []string{"X-Request-Id", "id0"}, "success or failure"},
		{"/gate/login/outcome", []string{"X-Request-Id", "id0"}, "success or failure"},
		{"/gate/login/outcome?outcome=success&outcome=failure", []string{"X-Request-Id", "id0"}, "once"},
		{"/gate/envoy/outcome?outcome=success", nil, "takes no attempt id"},
	} {
		if p := ask(c.path, "", c.headers...).refused(t, http.StatusBadRequest, "invalid_request"); !strings.Contains(
			p.Detail, c.text) {
			t.Errorf("%s: %s, want %s", c.path, p.Detail, c.text)
		}
	}
	ask("/gate/nobody/outcome?outcome=success", "").refused(t, http.StatusNotFound, "not_found")
}

func TestGatewayReportNeedsScopeInAPIKey(t *testing.T) {
	t.Parallel()
	g := guard(t)
	report, check := g.as("gateway", nil, access.ScopeReport), g.as("gateway", nil, access.ScopeCheck)
	for want, token := range map[int][]string{http.StatusNotFound: report, http.StatusForbidden: check} {
		key := []string{"X-API-Key", strings.TrimPrefix(token[1], "Bearer ")}
		g.ask(t, http.MethodPost, "/gate/login/outcome?outcome=success", "", key...).answered(t, want)
		g.ask(t, http.MethodPost, "/gate/login/outcome?outcome=success", "", token...).refused(t, http.StatusUnauthorized,
			"unauthenticated")
	}
}
