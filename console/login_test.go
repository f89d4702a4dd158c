package console_test

import (
	"context"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"velocityd/console"
	"velocityd/handlers/admission"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/memory"
	"velocityd/tools/servicetest"
)

func TestProxyLogsUsersInByItsOwnToken(t *testing.T) {
	t.Parallel()
	p := &place{Store: memory.New(), credentials: new(servicetest.Credentials), proxies: admission.ThisMachine()}
	p.start(t, true)
	gateway, carol := p.person(t, "gateway", access.ScopeAdmin), p.person(t, "carol", access.ScopeAdmin)
	for _, field := range []http.Header{{"X-Api-Key": {gateway.token}}, {"Authorization": {"Bearer " + gateway.token}}} {
		field.Set("X-Forwarded-User", "ann")
		b := p.browser(t)
		b.header = field
		b.gets(t, "", http.StatusOK, ">ann via gateway<")
		b.header = nil
		b.gets(t, "", http.StatusOK, "<h1>Log in</h1>")
	}
	carol.logIn(t).header = http.Header{"X-Api-Key": {gateway.token}}
	carol.gets(t, "", http.StatusOK, ">carol<")
	carol.gets(t, "history.csv", http.StatusOK)
	if audits := p.Audits(); len(audits) == 0 || audits[len(audits)-1].Principal != "carol" {
		t.Errorf("the export is noted as %v", audits)
	}
}

func TestTokenEndingMidPageLeadsToLogIn(t *testing.T) {
	t.Parallel()
	p := guarded(t, before(func(w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Path == "/v1/zones/1" && refuse(w, access.ErrUnauthenticated)
	}))
	b := p.person(t, "carol", access.ScopeHistory).logIn(t)
	if led := b.location(t, http.MethodGet, "zones/1", nil); !strings.HasPrefix(led, "../login?refused=1&to=") {
		t.Errorf("the page leads to %q", led)
	}
}

// tryLogIn sends a log-in, and does not look at the page that it leads to.
func (b *browser) tryLogIn(t *testing.T) *browser {
	t.Helper()
	b.post(t, "login", url.Values{"token": {b.token}})
	return b
}

// asked returns the sealed page in the address of the log-in to which a page leads.
func (b *browser) asked(t *testing.T, method, path string) string {
	t.Helper()
	return mustParse(t, b.location(t, method, path, nil)).Query().Get("to")
}

// entered logs the person in, on the way to a sealed page, and returns where that leads.
func (b *browser) entered(t *testing.T, to string) string {
	t.Helper()
	led := b.location(t, http.MethodPost, "login", url.Values{"token": {b.token}, "to": {to}})
	if !strings.HasPrefix(led, console.Path+"login?done=login") {
		t.Fatalf("the log-in leads to %q", led)
	}
	return b.location(t, http.MethodGet, strings.TrimPrefix(led, console.Path), nil)
}

func TestLoginLeadsBackToThePageAsked(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	b := p.person(t, "carol", access.ScopeAdmin)
	for _, path := range []string{"zones/1/versions", "history?blocked=true&within=day", "keys/x-_", "zones?after=1"} {
		to := b.asked(t, http.MethodGet, path)
		b.gets(t, "login?to="+to, http.StatusOK, `<input type="hidden" name="to" value="`+to+`">`)
		b.posts(t, "login", url.Values{"token": {"wrong"}, "to": {to}}, http.StatusUnauthorized, `value="`+to+`"`)
		if led := b.entered(t, to); led != console.Path+path {
			t.Errorf("the log-in for %s leads to %s", path, led)
		}
		b.post(t, "logout", url.Values{})
	}
}

func TestLoginLeadsBackToPagesAlone(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	b := p.browser(t)
	for path, method := range map[string]string{
		"history.csv": http.MethodGet, "history.ndjson?zone=1": http.MethodGet, "tokens/1/revoke": http.MethodPost,
		"search": http.MethodPost, "": http.MethodGet, "zones": http.MethodHead, "%2e%2e/other": http.MethodGet,
		"a/..%2f..%2fb": http.MethodGet, "a%5cb": http.MethodGet, "history?x=//evil.example": http.MethodGet,
		"history?" + strings.Repeat("x", 3000): http.MethodGet,
	} {
		if to := b.asked(t, method, path); to != "" {
			t.Errorf("%s %s is kept", method, path)
		}
	}
	b.header = http.Header{"X-Live": {"1"}}
	b.gets(t, "zones", http.StatusUnauthorized)
}

func TestForgedPageLeadsToTheFirstOne(t *testing.T) {
	t.Parallel()
	foreign := guarded(t).browser(t).asked(t, http.MethodGet, "zones")
	p := guarded(t)
	b := p.person(t, "carol", access.ScopeAdmin)
	for _, to := range []string{
		"", "zones", "https://evil.example/", "//evil.example", `\evil.example`, "/console/zones", "AAAA", foreign,
	} {
		if led := b.entered(t, to); led != console.Path {
			t.Errorf("%q leads to %s", to, led)
		}
		b.post(t, "logout", url.Values{})
	}
}

func TestPageReachedFromElsewhereReloadsOnce(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	known := p.person(t, "carol", access.ScopeAdmin).logIn(t)
	elsewhere := p.browser(t) // it sends no cookie, as the browser of known with a link of another site
	elsewhere.header = http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Dest": {"document"}}
	led := elsewhere.location(t, http.MethodGet, "zones/1?x=y", nil)
	again, ok := strings.CutPrefix(elsewhere.refresh(t, strings.TrimPrefix(led, "../")), "0; url=")
	if !ok || !strings.HasPrefix(again, "login?") {
		t.Fatalf("%s reloads %q", led, again)
	}
	if led := known.location(t, http.MethodGet, again, nil); led != console.Path+"zones/1?x=y" {
		t.Errorf("with a session the reload leads to %q", led)
	}
	elsewhere.gets(t, again, http.StatusOK, "<h1>Log in</h1>")
	if again := elsewhere.refresh(t, again); again != "" {
		t.Errorf("without a session it reloads again, to %s", again)
	}
}

// refresh returns the header by which a page reloads itself.
func (b *browser) refresh(t *testing.T, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.server.URL+console.Path+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(r.Header, b.header)
	answer, err := b.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.Header.Get("Refresh")
}

func TestBrowserWithoutCookiesIsToldSoOnce(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	b := p.person(t, "carol", access.ScopeAdmin)
	b.http.Jar = nil
	b.posts(t, "login", url.Values{"token": {b.token}}, http.StatusOK, "the browser has not kept its cookie")
	b.gets(t, "login", http.StatusOK, "<h1>Log in</h1>")
}

func TestUndecidedLogInIsNotOneTooMany(t *testing.T) {
	t.Parallel()
	p := guarded(t, func(o *console.Options) { o.LoginZone = 77 })
	status, page := p.browser(t).post(t, "login", url.Values{"token": {"x"}})
	if status != http.StatusServiceUnavailable ||
		!strings.Contains(page, "Zone 77, in which --console-zone checks log-ins, does not decide now.") {
		t.Errorf("without the zone: %d, %s", status, page)
	}
}

func TestLogInWithTwoForwardedAddressesIsRefused(t *testing.T) {
	t.Parallel()
	p := guarded(t, func(o *console.Options) {
		o.LoginZone, o.Proxies = 9, admission.Proxies{netip.MustParsePrefix("127.0.0.1/32")}
	})
	p.SetZone(t, service.Zone{ID: 9, Rate: 1, Window: time.Hour})
	b := p.browser(t)
	b.header = http.Header{"Forwarded": {"for=192.0.2.1"}, "X-Forwarded-For": {"192.0.2.2"}}
	b.posts(t, "login", url.Values{"token": {"x"}}, http.StatusBadRequest)
}

// degraded answers each check without a database.
type degraded struct{}

func (degraded) CheckAll(_ context.Context, checks []service.Check) ([]service.Decision, error) {
	return []service.Decision{{Degraded: true, Verdicts: make([]service.Verdict, len(checks[0].Buckets))}}, nil
}

// noReports fails the test at each report.
type noReports struct{ *testing.T }

func (t noReports) ReportAll(context.Context, []service.Report) ([]error, error) {
	t.Error("a log-in that is recorded nowhere is reported")
	return nil, nil
}

func TestLogInByOnFailureGoesUnreported(t *testing.T) {
	t.Parallel()
	p := guarded(t, func(o *console.Options) { o.LoginZone, o.Limiter, o.Outcomes = 9, degraded{}, noReports{t} })
	p.person(t, "carol", access.ScopeAdmin).logIn(t)
}

func TestFailedLoginAndForeignLogoutChangeNoSession(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	b := p.person(t, "carol", access.ScopeAdmin)
	b.post(t, "login", url.Values{"token": {"x"}})
	if cookies := b.http.Jar.Cookies(mustParse(t, p.server.URL)); len(cookies) != 0 {
		t.Errorf("the browser has %v", cookies)
	}
	b.logIn(t).header = http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Dest": {"document"}}
	b.post(t, "logout", url.Values{})
	b.header = nil
	b.gets(t, "", http.StatusOK, ">carol<")
	if _, page := b.post(t, "logout", url.Values{}); !strings.Contains(page, "<h1>Log in</h1>") {
		t.Errorf("the log-out leads to %s", page)
	}
}

func TestPartsThatRenewThemselvesKeepNoSessionAlive(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	b := p.person(t, "carol", access.ScopeAdmin).logIn(t)
	b.header = http.Header{"X-Live": {"1"}}
	for _, wanted := range []int{http.StatusOK, http.StatusOK, http.StatusUnauthorized} {
		b.gets(t, "", wanted)
		p.pass(16 * time.Minute)
	}
}
