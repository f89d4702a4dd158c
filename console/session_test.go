package console_test

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/console"
	"velocityd/service"
	"velocityd/service/access"
)

func TestSessionLastsEightHoursOrThirtyIdleMinutes(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	idle, busy := p.person(t, "idle", access.ScopeAdmin), p.person(t, "busy", access.ScopeAdmin)
	idle.logIn(t)
	busy.logIn(t)
	isIn := func(b *browser) bool {
		_, page := b.get(t, "")
		return !strings.Contains(page, "<h1>Log in</h1>")
	}
	for range 16 {
		if !isIn(busy) {
			t.Fatal("a session that is in use ended")
		}
		p.pass(29 * time.Minute)
	}
	if isIn(idle) {
		t.Error("an idle session is alive")
	}
	p.pass(20 * time.Minute)
	if isIn(busy) {
		t.Error("a session is alive after eight hours")
	}
}

func TestSessionHoldsOnInstancesWithKeyUntilRevoked(t *testing.T) {
	t.Parallel()
	withKey := func(key byte) func(*console.Options) {
		return func(o *console.Options) { o.Key = bytes.Repeat([]byte{key}, 32) }
	}
	p := guarded(t, withKey(1))
	b := p.person(t, "carol", access.ScopeAdmin).logIn(t)
	cookies := b.http.Jar.Cookies(mustParse(t, p.server.URL))
	shows := func(name string, change func(*console.Options)) bool {
		p.start(t, true, change)
		b := p.browser(t)
		b.take(t, cookies[0].Value)
		_, page := b.get(t, "")
		return strings.Contains(page, name)
	}
	if !shows("carol", withKey(1)) {
		t.Error("another instance with the key does not know the session")
	}
	if shows("carol", withKey(2)) {
		t.Error("an instance with another key knows the session")
	}
	p.credentials.Revoke(1)
	if shows("carol", withKey(1)) {
		t.Error("a session outlives its token")
	}
}

// take gives the browser the session of an instance that seems to have had the address of the present one.
func (b *browser) take(t *testing.T, value string) {
	t.Helper()
	address := mustParse(t, b.server.URL)
	b.http.Jar.SetCookies(address, []*http.Cookie{{
		Name: "__Host-velocityd-" + address.Port(), Value: value, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	}})
}

func mustParse(t *testing.T, address string) *url.URL {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestCookieHidesTokenAndIsForOwnOrigin(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	token := p.credentials.AddToken(access.Caller{Name: "carol", Scopes: []access.Scope{access.ScopeAdmin}})
	b := p.browser(t)
	b.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, p.server.URL+console.Path+"login",
		strings.NewReader(url.Values{"token": {token.Reveal()}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := b.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	cookie := answer.Header.Get("Set-Cookie")
	name := "__Host-velocityd-" + mustParse(t, p.server.URL).Port() + "="
	for _, wanted := range []string{name, "; Path=/;", "HttpOnly", "Secure", "SameSite=Strict"} {
		if !strings.Contains(cookie, wanted) {
			t.Errorf("the cookie %q lacks %s", cookie, wanted)
		}
	}
	if strings.Contains(cookie, "Domain") || strings.Contains(cookie, token.Reveal()) {
		t.Errorf("the cookie is %q", cookie)
	}
}

func TestPortsOfAHostHaveSessionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	one, other := guarded(t), guarded(t)
	b := one.person(t, "carol", access.ScopeAdmin).logIn(t)
	there := other.person(t, "dave", access.ScopeAdmin)
	there.http.Jar = b.http.Jar // it sends cookies to every port of a host
	there.logIn(t)
	b.gets(t, "", http.StatusOK, ">carol<")
	there.post(t, "logout", url.Values{})
	there.gets(t, "", http.StatusOK, "<h1>Log in</h1>")
	b.gets(t, "", http.StatusOK, ">carol<")
}

func TestLoginSaysHowTheSessionEnded(t *testing.T) {
	t.Parallel()
	for end, wanted := range map[string]string{
		"idle": "You have asked for no page for 30 minutes.", "long": "It was 8 hours old.",
		"another": "The service was started anew, or another one answers", "revoked": "Its token was revoked or has expired.",
		"left": "",
	} {
		var isRevoked atomic.Bool
		p := guarded(t, before(func(w http.ResponseWriter, _ *http.Request) bool {
			return isRevoked.Load() && refuse(w, access.ErrUnauthenticated)
		}))
		b := p.person(t, "carol", access.ScopeAdmin).logIn(t)
		switch end {
		case "idle":
			p.pass(30 * time.Minute)
		case "long":
			for range 17 {
				b.get(t, "zones")
				p.pass(29 * time.Minute)
			}
		case "another":
			cookies := b.http.Jar.Cookies(mustParse(t, p.server.URL))
			p.start(t, true)
			b.take(t, cookies[0].Value)
		case "revoked":
			isRevoked.Store(true)
		case "left":
			b.post(t, "logout", url.Values{})
		}
		page := b.gets(t, "zones", http.StatusOK, "<h1>Log in</h1>", wanted)
		if says := strings.Contains(page, "Your session has ended."); says != (wanted != "") {
			t.Errorf("%s: the log-in says that a session has ended: %t", end, says)
		}
	}
}

func TestLogInsAreLimitedByAZone(t *testing.T) {
	t.Parallel()
	p := guarded(t, func(o *console.Options) { o.LoginZone = 9 })
	p.SetZone(t, service.Zone{ID: 9, Rate: 2, Window: time.Hour, Counts: service.CountsFailures})
	b := p.browser(t)
	wrong := url.Values{"token": {access.NewToken().Reveal()}}
	for range 2 {
		b.posts(t, "login", wrong, http.StatusUnauthorized)
	}
	status, page := b.post(t, "login", wrong)
	if status != http.StatusTooManyRequests || !strings.Contains(page, "Too many log-ins") {
		t.Errorf("the third log-in is answered with %d, %s", status, page)
	}
}

func TestAnOpenServiceSaysThatItIsOpen(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.browser(t).gets(t, "", http.StatusOK, "This console asks for no credential")
}

func TestEveryPageKeepsForeignThingsOut(t *testing.T) {
	t.Parallel()
	p := open(t)
	answer, err := p.server.Client().Get(p.server.URL + console.Path)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	policy := answer.Header.Get("Content-Security-Policy")
	for _, wanted := range []string{
		"default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'",
		"frame-ancestors 'none'",
	} {
		if !strings.Contains(policy, wanted) {
			t.Errorf("the policy %q lacks %s", policy, wanted)
		}
	}
	if answer.Header.Get("Cache-Control") != "no-store" || answer.Header.Get("Referrer-Policy") != "same-origin" {
		t.Errorf("the headers are %v", answer.Header)
	}
}
