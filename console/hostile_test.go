package console_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/console"
	"velocityd/front"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/memory"
)

// before lets handle answer requests of the interface; those that it does not answer go on.
func before(handle func(w http.ResponseWriter, r *http.Request) (isAnswered bool)) func(*console.Options) {
	return func(o *console.Options) {
		whole := o.API
		o.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !handle(w, r) {
				whole.ServeHTTP(w, r)
			}
		})
	}
}

// refuse answers with the problem of an error.
func refuse(w http.ResponseWriter, err error) bool {
	kind, _ := api.KindOf(err)
	w.Header().Set("Content-Type", api.MediaProblem)
	w.WriteHeader(kind.Status)
	return json.NewEncoder(w).Encode(api.NewProblem(kind)) == nil
}

// location asks without following redirects, and returns where the answer leads to.
func (b *browser) location(t *testing.T, method, path string, form url.Values) string {
	t.Helper()
	var led string
	b.http.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		led = r.Response.Header.Get("Location")
		return http.ErrUseLastResponse
	}
	defer func() { b.http.CheckRedirect = nil }()
	b.ask(t, method, path, form)
	return led
}

func TestAProxyLogsItsUsersInByItsOwnToken(t *testing.T) {
	t.Parallel()
	p := &place{Store: memory.New(), credentials: new(memory.Credentials), proxies: front.ThisMachine()}
	p.start(t, true)
	gateway, carol := p.person(t, "gateway", access.ScopeAdmin), p.person(t, "carol", access.ScopeAdmin)
	for _, field := range []http.Header{{"X-Api-Key": {gateway.token}}, {"Authorization": {"Bearer " + gateway.token}}} {
		field.Set("X-Forwarded-User", "ann")
		b := p.browser(t)
		b.header = field
		if status, page := b.get(t, ""); status != http.StatusOK || !strings.Contains(page, ">ann via gateway<") {
			t.Errorf("%v is answered with %d, %s", field, status, page)
		}
		b.header = nil
		if _, page := b.get(t, ""); !strings.Contains(page, "<h1>Log in</h1>") {
			t.Error("the proxy's credential outlives its request")
		}
	}
	carol.logIn(t).header = http.Header{"X-Api-Key": {gateway.token}}
	if _, page := carol.get(t, ""); !strings.Contains(page, ">carol<") {
		t.Errorf("a session gives way to the credential of a proxy: %s", page)
	}
	if status, _ := carol.get(t, "history.csv"); status != http.StatusOK {
		t.Errorf("the export is answered with %d", status)
	}
	if audits := p.Audits(); len(audits) == 0 || audits[len(audits)-1].Principal != "carol" {
		t.Errorf("the export is noted as %v", audits)
	}
}

func TestAHeadOfAnExportExportsNothing(t *testing.T) {
	t.Parallel()
	p := open(t)
	if status, _ := p.browser(t).ask(t, http.MethodHead, "history.csv", nil); status != http.StatusOK {
		t.Errorf("it is answered with %d", status)
	}
	if audits := p.Audits(); len(audits) != 0 {
		t.Errorf("the audit has %v", audits)
	}
}

func TestATokenThatEndsWhileAPageIsMadeLeadsToTheLogIn(t *testing.T) {
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

func TestAllQuestionsOfAPageHaveOneDeadline(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	deadlines := map[string]time.Time{}
	p := guarded(t, before(func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		deadlines[r.URL.Path], _ = r.Context().Deadline()
		return false
	}))
	p.person(t, "carol", access.ScopeHistory).logIn(t).get(t, "history")
	mu.Lock()
	defer mu.Unlock()
	if d := deadlines["/v1/zones"]; d.IsZero() || !d.Equal(deadlines["/v1/txns"]) {
		t.Errorf("they are %v", deadlines)
	}
}

func TestWithoutTheDatabaseTheLogInIsShownAndPagesSaySo(t *testing.T) {
	t.Parallel()
	p := guarded(t, before(func(w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Path != "/v1/caller" && refuse(w, service.ErrBusy)
	}))
	b := p.person(t, "carol", access.ScopeAdmin)
	if status, page := b.get(t, "login"); status != http.StatusOK || !strings.Contains(page, "<h1>Log in</h1>") {
		t.Fatalf("the log-in is answered with %d, %s", status, page)
	}
	b.tryLogIn(t)
	for _, path := range []string{"", "history", "history.csv", "locked", "zones", "overrides", "audit", "tokens", "health", "health/doctor", "txns/1"} {
		status, page := b.get(t, path)
		if path == "health/doctor" && status == http.StatusOK {
			continue // it says that the examination is not over
		}
		if status != http.StatusServiceUnavailable || !strings.Contains(page, "<h1>This cannot be answered now.</h1>") || strings.Contains(page, "http://velocityd") {
			t.Errorf("%q is answered with %d, %s", path, status, page)
		}
	}
}

func TestTheAddressDoesNotSayForLongThatALogInSucceeded(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	b := p.person(t, "carol", access.ScopeAdmin).logIn(t)
	if led := b.location(t, http.MethodGet, "?done=login", nil); led != console.Path {
		t.Errorf("the first page leads to %q", led)
	}
}

func TestALogInThatItsZoneCannotDecideIsNoLogInTooMany(t *testing.T) {
	t.Parallel()
	p := guarded(t, func(o *console.Options) { o.LoginZone = 77 })
	status, page := p.browser(t).post(t, "login", url.Values{"token": {"x"}})
	if status != http.StatusServiceUnavailable || !strings.Contains(page, "Zone 77, in which --console-zone checks log-ins, does not decide now.") {
		t.Errorf("without the zone: %d, %s", status, page)
	}
}

func TestNobodyChoosesTheAddressThatHisLogInsAreCountedUnder(t *testing.T) {
	t.Parallel()
	p := guarded(t, func(o *console.Options) {
		o.LoginZone, o.Proxies = 9, front.Proxies{netip.MustParsePrefix("127.0.0.1/32")}
	})
	p.SetZone(t, service.Zone{ID: 9, Rate: 1, Window: time.Hour})
	b := p.browser(t)
	b.header = http.Header{"Forwarded": {"for=192.0.2.1"}, "X-Forwarded-For": {"192.0.2.2"}}
	if status, _ := b.post(t, "login", url.Values{"token": {"x"}}); status != http.StatusBadRequest {
		t.Errorf("two addresses are answered with %d", status)
	}
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

func TestALogInByOnFailureIsNotReported(t *testing.T) {
	t.Parallel()
	p := guarded(t, func(o *console.Options) { o.LoginZone, o.Limiter, o.Outcomes = 9, degraded{}, noReports{t} })
	p.person(t, "carol", access.ScopeAdmin).logIn(t)
}

func TestAFilterThatCannotBeReadIsNotOverlooked(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.audit = []service.AuditEntry{{ID: 1, At: time.Now(), Principal: "mallory", Subject: "zone", Action: "insert", ZoneID: 1}}
	for path, wanted := range map[string]int{
		"audit": 200, "audit?zone=&within=": 200, "audit?within=24": 200, "audit?within=9223372036854775807": 400, "audit?zone=x": 400,
		"history?zone=&zone=1": 400, "history?zone=": 200,
	} {
		status, page := p.browser(t).get(t, path)
		if status != wanted || strings.HasPrefix(path, "audit") && strings.Contains(page, "mallory") != (wanted == http.StatusOK) {
			t.Errorf("%s is answered with %d, %s", path, status, page)
		}
	}
}

func TestAFailedLogInWritesNoCookieAndAForeignLogOutEndsNoSession(t *testing.T) {
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
	if _, page := b.get(t, ""); !strings.Contains(page, ">carol<") {
		t.Errorf("the session has ended: %s", page)
	}
	if _, page := b.post(t, "logout", url.Values{}); !strings.Contains(page, "<h1>Log in</h1>") {
		t.Errorf("the log-out leads to %s", page)
	}
}

func TestALinkToAKeyOfAnotherZoneNamesNobodyToABoundReader(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	p.guardLogins(t)
	p.attempt(t, "", user("victim"))
	admin, bound := p.person(t, "root", access.ScopeAdmin), p.browser(t)
	bound.token = p.credentials.AddToken(access.Caller{Name: "bound", Zones: []int64{2}, Scopes: []access.Scope{access.ScopePeek, access.ScopeHistory}}).Reveal()
	_, page := admin.logIn(t).get(t, "history")
	sealed := regexp.MustCompile(`/console/keys/([\w-]+)`).FindStringSubmatch(page)
	if sealed == nil {
		t.Fatalf("the history is %s", page)
	}
	bound.logIn(t)
	for _, path := range []string{"keys/" + sealed[1], "search?key=" + sealed[1], "history?key=" + sealed[1]} {
		if status, page := admin.get(t, path); status != http.StatusOK || !strings.Contains(page, "victim") {
			t.Errorf("the admin gets %d for %s", status, path)
		}
		if status, page := bound.get(t, path); status < http.StatusBadRequest || strings.Contains(page, "victim") {
			t.Errorf("the bound reader gets %d for %s: %s", status, path, page)
		}
	}
}

func TestADeedLeadsToAPathBelowTheConsole(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.guardLogins(t)
	p.attempt(t, "", user("alice"))
	b := p.browser(t)
	_, page := b.search(t, "alice")
	bucket := regexp.MustCompile(`name="bucket" value="([\w-]+)"`).FindStringSubmatch(page)
	if bucket == nil {
		t.Fatalf("the page is %s", page)
	}
	led := b.location(t, http.MethodPost, "keys/..%2f..%2f%0d%0aSet-Cookie:x/release", url.Values{"bucket": {bucket[1]}, "reason": {"x"}})
	if !strings.HasPrefix(led, console.Path+"keys/..%2F..%2F%0D%0ASet-Cookie:x?") {
		t.Errorf("it leads to %q", led)
	}
}

func TestPagesOfOtherOriginsEmbedNothing(t *testing.T) {
	t.Parallel()
	p := open(t)
	for _, c := range []struct {
		site, dest string
		status     int
	}{
		{"cross-site", "image", 403}, {"cross-site", "empty", 403}, {"same-site", "iframe", 403}, {"cross-site", "document", 200},
		{"same-origin", "empty", 200}, {"none", "document", 200}, {"", "", 200},
	} {
		b := p.browser(t)
		b.header = http.Header{"Sec-Fetch-Site": {c.site}, "Sec-Fetch-Dest": {c.dest}}
		if status, _ := b.get(t, "attacks"); status != c.status {
			t.Errorf("%v is answered with %d", c, status)
		}
	}
}

func TestOddPathsAndMethodsAreAnsweredInWordsOrRefused(t *testing.T) {
	t.Parallel()
	p := open(t)
	b := p.browser(t)
	for path, wanted := range map[string]int{
		"keys/garbage": 404, "keys/%00": 404, "keys/" + strings.Repeat("A", 5000): 404, "search?key=garbage": 404, "history?key=x": 400, "zones/99999999999999999999": 404,
		"zones/0": 404, "zones/-1": 404, "txns/0": 404, "txns/18446744073709551616": 404, "overrides/1/x": 404, "nothing;x": 404, "a%2f..%2fb": 404,
		"tokens?after=18446744073709551615": 200, "history?since=9999-99-99T00:00": 400, "static/..%2fconsole.go": 404,
	} {
		status, page := b.get(t, path)
		if status != wanted || strings.Contains(page, "goroutine") {
			t.Errorf("%s is answered with %d, want %d: %.300s", path, status, wanted, page)
		}
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions, http.MethodTrace} {
		if status, _ := b.ask(t, method, "zones", nil); status != http.StatusMethodNotAllowed {
			t.Errorf("%s is answered with %d", method, status)
		}
	}
}

func TestNoNameOfAZoneTurnsTheTextOfAPage(t *testing.T) {
	t.Parallel()
	const name = "users\u202e</script><b>"
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Description: name, Rate: 1, Window: time.Hour, Lockout: 2 * time.Hour, Totals: true})
	p.SetZone(t, service.Zone{ID: 2, Description: name, Rate: 9, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	p.attempt(t, "", user("alice"), host("192.0.2.1"))
	p.attempt(t, "", user("alice"), host("192.0.2.1"))
	b := p.browser(t)
	key, _ := b.search(t, "alice")
	for _, path := range []string{"", "history", "locked", "locked?zone=1", "attacks", "zones", "zones/1", "overrides", "audit", key, "txns/1", "search"} {
		status, page := b.get(t, path)
		if status != http.StatusOK || strings.ContainsRune(page, '\u202e') || strings.Contains(page, "</script><b>") {
			t.Errorf("%s is answered with %d, %s", path, status, page)
		}
	}
}

func TestAnOlderBrowserSaysByOriginWhereAFormComesFrom(t *testing.T) {
	t.Parallel()
	p := open(t)
	for origin, wanted := range map[string]int{p.server.URL: http.StatusOK, "null": http.StatusForbidden, "https://evil.example": http.StatusForbidden} {
		b := p.browser(t)
		b.header = http.Header{"Sec-Fetch-Site": {}, "Origin": {origin}}
		if status, _ := b.post(t, "search", url.Values{"text": {""}}); status != wanted {
			t.Errorf("a form of %s is answered with %d", origin, status)
		}
	}
}

func TestAReaderBoundToAZoneGetsEachPageThatHeIsShown(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	p.guardLogins(t)
	p.attempt(t, "", user("alice"), host("192.0.2.1"))
	dba, admin := p.browser(t), p.browser(t)
	dba.token = p.credentials.AddToken(access.Caller{
		Name: "dba", Zones: []int64{1},
		Scopes: []access.Scope{access.ScopeHistory, access.ScopePeek, access.ScopeRelease, access.ScopeOverrides, access.ScopeZones},
	}).Reveal()
	admin.token = p.credentials.AddToken(access.Caller{Name: "admin", Zones: []int64{1}, Scopes: []access.Scope{access.ScopeAdmin}}).Reveal()
	for _, b := range []*browser{dba, admin} {
		b.getsWhatItIsShown(t)
	}
}

// getsWhatItIsShown loads all pages of the menu, and those about zone 1.
func (b *browser) getsWhatItIsShown(t *testing.T) {
	t.Helper()
	_, first := b.logIn(t).get(t, "")
	menu := regexp.MustCompile(`href="/console/([a-z]*)"`).FindAllStringSubmatch(first, -1)
	if len(menu) < 8 {
		t.Fatalf("the menu has %v", menu)
	}
	for _, entry := range menu {
		if status, page := b.get(t, entry[1]); status != http.StatusOK {
			t.Errorf("%q of the menu is answered with %d, %s", entry[1], status, words(page))
		}
	}
	if _, page := b.search(t, "alice"); !strings.Contains(page, "<h1><bdi class=\"key\">alice</bdi></h1>") || !strings.Contains(page, "Newest attempts") {
		t.Errorf("the key is shown as %s", words(page))
	}
	for _, path := range []string{"zones/1", "zones/1/edit", "zones/1/versions", "overrides?zone=1", "locked?zone=1", "history?zone=1", "attacks?users=1"} {
		if status, page := b.get(t, path); status != http.StatusOK {
			t.Errorf("%q is answered with %d, %s", path, status, words(page))
		}
	}
	if status, page := b.get(t, "txns/1"); status != http.StatusNotFound || !strings.Contains(page, "zones that are not yours") {
		t.Errorf("a decision of a check in other zones, too: %d, %s", status, words(page))
	}
}
