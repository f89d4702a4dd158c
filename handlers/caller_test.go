package handlers

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/memory"
)

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body of an unknown caller was read")
	return 0, io.EOF
}

func TestUnknownCallersGetOneAnswerWhateverTheyName(t *testing.T) {
	t.Parallel()
	memory := memory.New()
	auth, credentials := authOf(t, memory)
	memory.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	handler := New(Options{
		Limiter: service.NewLimiter(memory, service.LimiterOptions{Timeout: time.Minute}), Reader: memory, Writer: memory,
		Auth: auth,
	})
	ended := credentials.AddToken(access.Caller{Name: "gone", Scopes: []access.Scope{access.ScopeAdmin}})
	credentials.Revoke(1)
	expired := access.NewToken()
	c := access.NewTokenCredential(expired, access.Caller{Name: "old", Scopes: []access.Scope{access.ScopeAdmin}})
	c.ExpiresAt.Time = time.Unix(1, 0)
	credentials.Add(c)
	good := credentials.AddToken(access.Caller{Name: "good", Scopes: []access.Scope{access.ScopeAdmin}})
	headers := [][]string{
		nil,
		{"Authorization", "Bearer " + access.NewToken().Reveal()},
		{"Authorization", "Bearer " + ended.Reveal()},
		{"Authorization", "Bearer " + expired.Reveal()},
		{"Authorization", "Bearer " + good.Reveal()[:39]},
		{"Authorization", "Bearer " + good.Reveal() + " x"},
		{"Authorization", "Negotiate " + good.Reveal()},
		{"Authorization", "Bearer " + good.Reveal(), "Authorization", "Bearer " + good.Reveal()},
		{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(good.Reveal()+":"))},
		{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 1000)+":"+good.Reveal()))},
		{"X-API-Key", good.Reveal(), "X-API-Key", good.Reveal()},
		{"X-API-Key", access.NewToken().Reveal(), "Authorization", "Bearer " + good.Reveal()},
		{"X-Forwarded-User", "root"},
	}
	requests := calls()
	for _, path := range []string{
		"/v1", "/v1/zones/2", "/v1/zones/x", "/v1/zones/99999999999", "/v1/zones/1/overrides?limit=x",
		"/v1/zones/1/buckets/%zz", "/x", "//", "/metrics", "/debug/pprof/", "/livez/",
	} {
		for _, method := range []string{"GET", "POST", "OPTIONS", "PATCH", "VERYLONGUNKNOWNMETHOD"} {
			requests = append(requests, struct{ method, path, body string }{method, path, ""})
		}
	}
	requests = append(requests, struct{ method, path, body string }{"POST", "/", ""},
		struct{ method, path, body string }{"PUT", "/readyz", ""})
	first := ""
	for _, request := range requests {
		if request.method == http.MethodHead {
			continue // no body to compare
		}
		for _, header := range headers {
			r := httptest.NewRequestWithContext(t.Context(), request.method, "/", unread{t})
			r.URL.Path, r.ContentLength = request.path, 100
			r.Header.Set("X-Request-Id", "same")
			for i := 0; i < len(header); i += 2 {
				r.Header.Add(header[i], header[i+1])
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			got := fmt.Sprint(w.Code, w.Header(), w.Body)
			if first == "" {
				first = got
			}
			if w.Code != http.StatusUnauthorized || got != first || w.Header().Get("WWW-Authenticate") != challenge {
				t.Fatalf("%s %s: got\n%s, and others\n%s", request.method, request.path, got, first)
			}
		}
	}
}

func TestCallersGetBusyWhileTheirIdentityIsUnknown(t *testing.T) {
	t.Parallel()
	g := guard(t)
	headers := g.as("shop", nil, access.ScopeHistory)
	g.credentials.Fail(fmt.Errorf("%w: Error 1142: hidden_name", service.ErrForbidden))
	for _, path := range []string{"/v1/txns/1", "/v1/txns/99"} {
		p := g.ask(t, "GET", path, "", headers...).refused(t, http.StatusServiceUnavailable, "busy")
		if strings.Contains(p.Detail, "hidden_name") {
			t.Errorf("the caller learns %s", p.Detail)
		}
	}
	g.ask(t, "GET", "/v1/txns/1", "", "X-API-Key", "x").refused(t, http.StatusUnauthorized, "unauthenticated")
}

func TestThePrincipalIsTheCallersName(t *testing.T) {
	t.Parallel()
	here := netip.MustParsePrefix("127.0.0.1/32")
	elsewhere := netip.MustParsePrefix("192.0.2.0/24")
	for name, c := range map[string]struct {
		proxies []netip.Prefix
		user    string
		want    string
	}{
		"no proxy forwards":    {[]netip.Prefix{elsewhere, here}, "", "dba"},
		"no proxy is trusted":  {nil, "root", "dba"},
		"another is trusted":   {[]netip.Prefix{elsewhere}, "root", "dba"},
		"ignored if malformed": {[]netip.Prefix{elsewhere}, "a\tb", "dba"},
		"trusted":              {[]netip.Prefix{elsewhere, here}, "Zoë", "Zoë via dba"},
		"too long with it":     {[]netip.Prefix{here}, strings.Repeat("é", 121), ""},
		"as long as can be":    {[]netip.Prefix{here}, strings.Repeat("é", 120), strings.Repeat("é", 120) + " via dba"},
	} {
		g := guard(t, c.proxies...)
		headers := append(g.as("dba", nil, access.ScopeZones), "Content-Type", "application/json")
		if c.user != "" {
			headers = append(headers, "X-Forwarded-User", c.user)
		}
		got := g.ask(t, "DELETE", "/v1/zones/2", "", headers...)
		if c.want == "" {
			got.refused(t, http.StatusBadRequest, "invalid_request")
			continue
		}
		audits := g.Audits()
		if last := audits[len(audits)-1]; got.status != http.StatusNoContent || last.Principal != c.want {
			t.Errorf("%s: %d, and the record names %q, want %q", name, got.status, last.Principal, c.want)
		}
	}
}

func TestWithoutCredentialsOnlyThisMachineMayForward(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{
		"127.0.0.1:1": "root", "127.9.9.9:1": "root", "[::1]:1": "root", "[::ffff:127.0.0.1]:1": "root",
		"192.0.2.1:1": "", "[::2]:1": "", "[fe80::1%eth0]:1": "", "": "", "@": "",
	} {
		memory := memory.New()
		memory.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
		handler := New(Options{Reader: memory, Writer: memory})
		r := httptest.NewRequestWithContext(t.Context(), "DELETE", "/v1/zones/1", nil)
		r.RemoteAddr = from
		r.Header.Set(api.HeaderPrincipal, "root")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		audits := memory.Audits()
		if last := audits[len(audits)-1]; w.Code != http.StatusNoContent || last.Principal != want {
			t.Errorf("from %q: %d, and the record names %q, want %q", from, w.Code, last.Principal, want)
		}
	}
}

func TestOverrideAuthorIsCallerNotItsClaim(t *testing.T) {
	t.Parallel()
	g := guard(t)
	answer := g.ask(t, "POST", "/v1/zones/1/overrides",
		`{"bucket_key":"erin","action":"deny","reason":"x","created_by":"somebody else"}`,
		append(g.as("helpdesk", nil, access.ScopeOverrides), "Content-Type", "application/json")...)
	if answer.status != http.StatusCreated || !strings.Contains(answer.body, `"created_by":"helpdesk"`) {
		t.Errorf("%d %s", answer.status, answer.body)
	}
}
