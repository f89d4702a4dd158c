package handlers

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/handlers/admission"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/tools/handlerstest"
)

// startGate serves zones 1 and 2, in which two attempts an hour are allowed.
func startGate(t *testing.T, change func(*Options)) *running {
	t.Helper()
	r := start(t, change)
	for id := range int64(2) {
		r.SetZone(t, service.Zone{ID: id + 1, Rate: 2, Window: time.Hour})
	}
	return r
}

// ofAlice are the headers of a gateway that asks for a user.
func ofAlice() []string { return []string{"X-Velocity-Zone", "1", "X-Velocity-Key", "alice"} }

func TestAGateAnswersByTheStatusAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path        string
		headers     []string
		allow, deny int
	}{
		{"/v1/gate?zone=1&key=alice", nil, 204, 403},
		{"/v1/gate?zone=1&key=alice&zone=2&key=bob&allow=200&deny=429", nil, 200, 429},
		{"/v1/gate?deny=401", ofAlice(), 204, 401},
		{"/v1/gate", append(ofAlice(), "X-Velocity-Zone", "2", "X-Velocity-Key", "b&o%b"), 204, 403},
	} {
		r := startGate(t, nil)
		for i := range 3 {
			got := r.ask(t, http.MethodGet, c.path, "", c.headers...)
			want, text := c.allow, ""
			if i == 2 {
				want, text = c.deny, fmt.Sprintf("Too many attempts. Try again in %s seconds.\n", got.header.Get("Retry-After"))
			}
			if got.status != want || got.body != text || (got.header.Get("Retry-After") != "") != (i == 2) ||
				got.header.Get("X-Velocity-Txn-Id") == "" || got.header.Get("X-Velocity-Attempt-Id") != "" ||
				got.header.Get("RateLimit") == "" || got.header.Get("Cache-Control") != "no-store" ||
				got.header.Get("WWW-Authenticate") != "" {
				t.Errorf("%s, attempt %d: %d %v %q", c.path, i, got.status, got.header, got.body)
			}
		}
	}
}

func TestAGateAnswersAnyMethodWithAnyBody(t *testing.T) {
	t.Parallel()
	r := startGate(t, nil)
	r.SetZone(t, service.Zone{ID: 1, Rate: 1000, Window: time.Hour})
	for _, method := range []string{
		"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND",
		"MKCOL", "anything",
	} {
		body, headers := "", ofAlice()
		if method != http.MethodHead && method != http.MethodTrace {
			body, headers = strings.Repeat("x", 1<<10), append(headers, "Content-Type", "none")
		}
		r.ask(t, method, "/v1/gate", body, headers...).answered(t, http.StatusNoContent)
	}
	if line, _ := r.log.lastRequest(t); line["route"] != "/v1/gate" || line["caller"] != nil || line["blocked"] != false {
		t.Errorf("logged %v", line)
	}
}

func TestAGateAnswersHTTP10AndChunkedBodies(t *testing.T) {
	t.Parallel()
	r := startGate(t, nil)
	for name, request := range map[string]string{
		"HTTP/1.0": "GET /v1/gate?zone=1&key=a HTTP/1.0\r\nConnection: close\r\n\r\n",
		"chunked": "POST /v1/gate?zone=1&key=b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: none\r\nTransfer-Encoding: " +
			"chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"an end user's request, as nginx passes it on": "GET /v1/gate?zone=1&key=c HTTP/1.0\r\nHost: " +
			"velocityd\r\nConnection: close\r\nAuthorization: Basic YTpi\r\nCookie: a=b\r\nContent-Type: " +
			"application/x-www-form-urlencoded\r\n\r\n",
	} {
		if !handlerstest.Dial(t, strings.TrimPrefix(r.url, "http://")).MustAsk(t, request, http.StatusNoContent).Closes {
			t.Errorf("%s: the connection is kept", name)
		}
	}
}

func TestEndUserHeadersNeverChangeQuestionInAddress(t *testing.T) {
	t.Parallel()
	r := startGate(t, nil)
	forged := []string{"X-Velocity-Zone", "2", "X-Velocity-Key", "victim", "X-Velocity-Attempt", "always-the-same"}
	for _, want := range []int{204, 204, 403} {
		r.ask(t, http.MethodGet, "/v1/gate?zone=1&key=alice", "", forged...).answered(t, want)
	}
	if got := r.ask(t, http.MethodGet, "/v1/gate?zone=2&key=victim", ""); got.status != 204 ||
		got.header.Get("RateLimit") != `"2";r=1` {
		t.Errorf("the victim's bucket: %d %v", got.status, got.header)
	}
}

func TestHeaderAttemptIDCountsOnlyIfAddressAllows(t *testing.T) {
	t.Parallel()
	r := startGate(t, nil)
	headers := append(ofAlice(), "X-Velocity-Attempt", "one")
	p := r.ask(t, http.MethodGet, "/v1/gate", "", headers...).refused(t, http.StatusBadRequest, "invalid_request")
	if !strings.Contains(p.Detail, "attempt=@header") {
		t.Errorf("the answer is %s", p.Detail)
	}
	first := r.ask(t, http.MethodGet, "/v1/gate?attempt=@header", "", headers...)
	for range 3 {
		again := r.ask(t, http.MethodGet, "/v1/gate?attempt=@header", "", headers...)
		if again.status != 204 || again.header.Get("X-Velocity-Txn-Id") != first.header.Get("X-Velocity-Txn-Id") ||
			again.header.Get("X-Velocity-Attempt-Id") != "one" {
			t.Errorf("again: %d %v, first %v", again.status, again.header, first.header)
		}
	}
	if got := r.ask(t, http.MethodGet, "/v1/gate?zone=1&key=alice&attempt=one", ""); got.header.Get(
		"X-Velocity-Attempt-Id") != "one" {
		t.Errorf("in the address: %d %v", got.status, got.header)
	}
	r.ask(t, http.MethodGet, "/v1/gate?zone=2&key=alice&attempt=one", "").refused(t, http.StatusBadRequest, "conflict")
}

func TestEachGatewayErrorIs400WithText(t *testing.T) {
	t.Parallel()
	r := startGate(t, nil)
	for _, c := range []struct {
		query, code, text string
		headers           []string
	}{
		{"", "invalid_request", "names no zone and no key", nil},
		{"", "invalid_request", "1 zones and 2 keys", append(ofAlice(), "X-Velocity-Key", "secret")},
		{"?zone=1", "invalid_request", "1 zones and 0 keys", ofAlice()},
		{"?zone=1&key=", "invalid_request", "key 1 of the request is empty", nil},
		{"?zone=x&key=a", "invalid_request", "zone 1 of the request", nil},
		{"?zone=1&key=a&zone=-1&key=a", "invalid_request", "zone 2 of the request", nil},
		{"?zone=2147483648&key=a", "invalid_request", "zone_id must be", nil},
		{"?zone=1&key=a%00", "invalid_request", "control characters", nil},
		{"?zone=1&key=%ff", "invalid_request", "UTF-8", nil},
		{"?zone=1&key=%zz", "invalid_request", "query of the address is malformed", nil},
		{"?zone=1&key=a&zones=2", "invalid_request", "not known", nil},
		{"?zone=1&key=a&deny=500", "invalid_request", "401, 403 or 429", nil},
		{"?zone=1&key=a&deny=403&deny=429", "invalid_request", "once", nil},
		{"?zone=1&key=a&allow=302", "invalid_request", "200 or 204", nil},
		{"?zone=1&key=a&attempt=1&attempt=2", "invalid_request", "several times", nil},
		{"?zone=1&key=a&attempt=", "invalid_request", "attempt is empty", nil},
		{"?zone=1&key=a&attempt=@header", "invalid_request", "X-Velocity-Attempt", nil},
		{"?" + strings.Repeat("zone=1&key=a&", 9), "invalid_request", "1 to 8 buckets", nil},
		{"?zone=7&key=secret", "not_found", "zone 7", nil},
	} {
		p := r.ask(t, http.MethodGet, "/v1/gate"+c.query, "", c.headers...).refused(t, http.StatusBadRequest, c.code)
		if !strings.Contains(p.Detail, c.text) || p.Pointer != "" {
			t.Errorf("%s: %q %q, want %q", c.query, p.Detail, p.Pointer, c.text)
		}
	}
	if text := r.log.String(); strings.Contains(text, "secret") ||
		!strings.Contains(text, `"level":"WARN","msg":"request refused"`) {
		t.Errorf("logged %s", text)
	}
}

// A wrong credential of the gateway must not look like a blocked attempt, nor like one that may go ahead.
func TestGatewayUsesAPIKeyAndWrongIs400(t *testing.T) {
	t.Parallel()
	g := guard(t)
	key := func(name string, zones []int64, scopes ...access.Scope) []string {
		return []string{"X-API-Key", strings.TrimPrefix(g.as(name, zones, scopes...)[1], "Bearer ")}
	}
	all, bound, other := key("all", nil, access.ScopeCheck), key("bound", []int64{2}, access.ScopeCheck),
		key("other", nil, access.ScopeReport)
	inAuthorization := g.as("login", nil, access.ScopeCheck)
	logged := map[string]bool{}
	endUser := []string{"Authorization", "Basic c2VjcmV0OnNlY3JldA=="}
	for _, c := range []struct {
		name, code string // "": it is answered
		headers    []string
	}{
		{"a token", "", all},
		{"beside the end user's Authorization", "", append(slices.Clone(endUser), all...)},
		{"none", "unauthenticated", nil},
		{"in Authorization", "unauthenticated", inAuthorization},
		{"unknown", "unauthenticated", []string{"X-API-Key", access.NewToken().Reveal()}},
		{"garbage", "unauthenticated", []string{"X-API-Key", "secret"}},
		{"another scope", "missing_scope", other},
		{"another zone", "missing_scope", bound},
	} {
		before := len(g.log.String())
		got := g.ask(t, http.MethodGet, "/v1/gate?zone=1&key=secret", "", c.headers...)
		text := g.log.String()[before:]
		if strings.Contains(text, "secret") || strings.Contains(text, "c2VjcmV0") {
			t.Errorf("%s: logged %s", c.name, text)
		}
		if c.code == "" {
			if got.status != http.StatusNoContent {
				t.Errorf("%s: %d %s", c.name, got.status, got.body)
			}
			continue
		}
		p := got.refused(t, http.StatusBadRequest, c.code)
		if got.header.Get("WWW-Authenticate") != "" || c.code == "unauthenticated" &&
			!strings.Contains(p.Detail, "The gateway has not proved") {
			t.Errorf("%s: %v %s", c.name, got.header, p.Detail)
		}
		// The same one is a line a second.
		if !logged[c.code] && !strings.Contains(text, `"level":"WARN","msg":"request refused"`) {
			t.Errorf("%s: logged %s", c.name, text)
		}
		logged[c.code] = true
	}
}

func TestAGateCountsTheClientBehindTrustedProxies(t *testing.T) {
	t.Parallel()
	loopback := admission.ThisMachine()
	for name, c := range map[string]struct {
		proxies admission.Proxies
		want    string
	}{
		"by default on this machine": {nil, "198.51.100.7"},
		"trusted":                    {loopback, "198.51.100.7"},
		"not trusted":                {admission.Proxies{netip.MustParsePrefix("10.0.0.0/8")}, "127.0.0.1"},
	} {
		r := startGate(t, func(o *Options) { o.Auth.TrustedProxies = c.proxies })
		r.ask(t, http.MethodGet, "/v1/gate?zone=1&key=@client", "", "X-Forwarded-For", "203.0.113.1, 198.51.100.7")
		peek, err := r.Peek(t.Context(), service.Bucket{ZoneID: 1, Key: c.want})
		if err != nil || peek.Velocity != 1 {
			t.Errorf("%s: %s has %d, %v", name, c.want, peek.Velocity, err)
		}
	}
	r := startGate(t, nil)
	p := r.ask(t, http.MethodGet, "/v1/gate?zone=1&key=@client", "", "X-Forwarded-For", "198.51.100.7", "Forwarded",
		"for=198.51.100.8").
		refused(t, http.StatusBadRequest, "invalid_request")
	if !strings.Contains(p.Detail, "lead to different addresses") {
		t.Errorf("the answer is %s", p.Detail)
	}
}

func TestUndecidedGateAnswersAsTheServiceDoes(t *testing.T) {
	t.Parallel()
	for want, fault := range map[int]error{
		http.StatusServiceUnavailable: service.ErrBusy, http.StatusGatewayTimeout: service.ErrUndecided,
		http.StatusInternalServerError: service.ErrForbidden,
	} {
		r := startWith(t, func(context.Context, []service.Check) ([]service.Decision, error) { return nil, fault })
		got := r.ask(t, http.MethodGet, "/v1/gate?zone=1&key=a", "")
		if got.status != want || (got.header.Get("Retry-After") != "") != (want == http.StatusServiceUnavailable) {
			t.Errorf("%v: %d %v, want %d", fault, got.status, got.header, want)
		}
		if !strings.Contains(r.log.String(), `"msg":"request failed"`) {
			t.Errorf("%v: logged %s", fault, r.log)
		}
	}
}

func TestWebPagesCannotAskAGate(t *testing.T) {
	t.Parallel()
	r := startGate(t, func(o *Options) { o.AllowedHosts = []string{"login.example.org"} })
	r.SetZone(t, service.Zone{ID: 1, Rate: 1000, Window: time.Hour})
	foreign := map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
	with := func(name, value string) map[string]string {
		return map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example", name: value}
	}
	for name, c := range map[string]struct {
		method, query, host string
		header              map[string]string
		refused             bool
	}{
		"a picture of a page": {
			"GET", "?zone=1&key=alice", "",
			map[string]string{"Sec-Fetch-Site": "cross-site"},
			true,
		},
		"a form of a page": {"POST", "?zone=1&key=alice", "", foreign, true},
		"its preflight": {
			"OPTIONS", "?zone=1&key=alice", "",
			with("Access-Control-Request-Headers", "x-velocity-zone"), true,
		},
		"a page of a name that was rebound":   {"GET", "", "evil.example:8080", with("X-Velocity-Zone", "1"), true},
		"a gateway that sends the headers":    {"GET", "", "", with("X-Velocity-Zone", "1"), false},
		"a gateway that sends the client":     {"GET", "?zone=1&key=alice", "", with("X-Forwarded-For", "192.0.2.1"), false},
		"a gateway that sends it by RFC 7239": {"GET", "?zone=1&key=alice", "", with("Forwarded", "for=192.0.2.1"), false},
		"a gateway with a key":                {"GET", "?zone=1&key=alice", "", with("X-API-Key", "x"), false},
		"a gateway that passes on a good name": {
			"GET", "?zone=1&key=alice", "login.example.org",
			with("X-Forwarded-For", "192.0.2.1"), false,
		},
		"no browser": {"GET", "?zone=1&key=alice", "", nil, false},
	} {
		if _, ok := c.header["X-Velocity-Zone"]; ok {
			c.header["X-Velocity-Key"] = "alice"
		}
		got := r.askAs(t, c.method, "/v1/gate"+c.query, c.host, c.header)
		switch {
		case c.refused:
			got.refused(t, http.StatusBadRequest, "foreign_origin")
		case got.status != http.StatusNoContent:
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
}

// With tokens, gateways may pass on any Host: no page knows the token.
func TestGatewayWithTokenPassesOnAnyHost(t *testing.T) {
	t.Parallel()
	g := guard(t)
	key := strings.TrimPrefix(g.as("all", nil, access.ScopeCheck)[1], "Bearer ")
	got := g.askAs(t, http.MethodGet, "/v1/gate?zone=1&key="+url.QueryEscape("a b"), "login.example.org",
		map[string]string{"X-API-Key": key})
	if got.status != http.StatusNoContent {
		t.Errorf("%d %s", got.status, got.body)
	}
}
