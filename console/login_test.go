package console_test

import (
	"context"
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
		return r.URL.Path == "/v1/zones" && refuse(w, access.ErrUnauthenticated)
	}))
	b := p.person(t, "carol", access.ScopeHistory).tryLogIn(t)
	if led := b.location(t, http.MethodGet, "zones", nil); led != console.Path+"login" {
		t.Errorf("the page leads to %q", led)
	}
}

// tryLogIn sends a log-in, and does not look at the page that it leads to.
func (b *browser) tryLogIn(t *testing.T) *browser {
	t.Helper()
	b.post(t, "login", url.Values{"token": {b.token}})
	return b
}

func TestAddressShowsLogInSuccessOnlyBriefly(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	b := p.person(t, "carol", access.ScopeAdmin).logIn(t)
	if led := b.location(t, http.MethodGet, "?done=login", nil); led != console.Path {
		t.Errorf("the first page leads to %q", led)
	}
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
