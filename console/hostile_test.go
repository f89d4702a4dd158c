package console_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/console"
	"velocityd/service"
	"velocityd/service/access"
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
	if d := deadlines["/v1/zones"]; d.IsZero() || !d.Equal(deadlines["/v1/checks"]) {
		t.Errorf("they are %v", deadlines)
	}
}

func TestLoginShowsWithoutDatabaseAndPagesSaySo(t *testing.T) {
	t.Parallel()
	p := guarded(t, before(func(w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Path != "/v1/caller" && refuse(w, service.ErrBusy)
	}))
	b := p.person(t, "carol", access.ScopeAdmin)
	b.gets(t, "login", http.StatusOK, "<h1>Log in</h1>")
	b.tryLogIn(t)
	for _, path := range []string{
		"", "history", "history.csv", "locked", "zones", "overrides", "audit", "tokens",
		"health", "health/doctor", "txns/1",
	} {
		status, page := b.get(t, path)
		if path == "health/doctor" && status == http.StatusOK {
			continue // it says that the examination is not over
		}
		if status != http.StatusServiceUnavailable || !strings.Contains(page, "<h1>This cannot be answered now.</h1>") ||
			strings.Contains(page, "http://velocityd") {
			t.Errorf("%q is answered with %d, %s", path, status, page)
		}
	}
}

func TestDeedLeadsToPathBelowConsole(t *testing.T) {
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
	led := b.location(t, http.MethodPost, "keys/..%2f..%2f%0d%0aSet-Cookie:x/release",
		url.Values{"bucket": {bucket[1]}, "reason": {"x"}})
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
		{"cross-site", "image", 403},
		{"cross-site", "empty", 403},
		{"same-site", "iframe", 403},
		{"cross-site", "document", 200},
		{"same-origin", "empty", 200},
		{"none", "document", 200},
		{"", "", 200},
	} {
		b := p.browser(t)
		b.header = http.Header{"Sec-Fetch-Site": {c.site}, "Sec-Fetch-Dest": {c.dest}}
		b.gets(t, "attacks", c.status)
	}
}

func TestOddPathsAndMethodsAreExplainedOrRefused(t *testing.T) {
	t.Parallel()
	p := open(t)
	b := p.browser(t)
	for path, wanted := range map[string]int{
		"keys/garbage": 404, "keys/%00": 404, "keys/" + strings.Repeat("A", 5000): 404, "search?key=garbage": 404,
		"history?key=x": 400, "zones/99999999999999999999": 404,
		"zones/0": 404, "zones/-1": 404, "txns/0": 404, "txns/18446744073709551616": 404, "overrides/1/x": 404,
		"nothing;x": 404, "a%2f..%2fb": 404,
		"tokens?after=18446744073709551615": 200, "history?since=9999-99-99T00:00": 400, "static/..%2fconsole.go": 404,
	} {
		status, page := b.get(t, path)
		if status != wanted || strings.Contains(page, "goroutine") {
			t.Errorf("%s is answered with %d, want %d: %.300s", path, status, wanted, page)
		}
	}
	for _, method := range []string{
		http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions,
		http.MethodTrace,
	} {
		if status, _ := b.ask(t, method, "zones", nil); status != http.StatusMethodNotAllowed {
			t.Errorf("%s is answered with %d", method, status)
		}
	}
}

func TestKeysAndZoneNamesAreOnlyText(t *testing.T) {
	t.Parallel()
	const name, key = "users\u202e</script><b>", `"><img src=x onerror=alert(1)>'{{.}}` + "\u202e\u200b"
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Description: name, Rate: 1, Window: time.Hour, Lockout: 2 * time.Hour, Totals: true})
	p.SetZone(
		t, service.Zone{ID: 2, Description: name, Rate: 9, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	p.attempt(t, "", user(key), host("192.0.2.1"))
	p.attempt(t, "", user(key), host("192.0.2.1"))
	b := p.browser(t)
	found, _ := b.search(t, key)
	for _, path := range []string{
		"", "history", "locked", "locked?zone=1", "attacks", "zones", "zones/1", "overrides",
		"audit", found, "txns/1", "search",
	} {
		status, page := b.get(t, path)
		if status != http.StatusOK || strings.ContainsAny(page, "\u202e\u200b") || strings.Contains(page, "</script><b>") ||
			strings.Contains(page, "<img") {
			t.Errorf("%s is answered with %d, %s", path, status, page)
		}
	}
}

func TestOlderBrowserNamesFormSourceByOrigin(t *testing.T) {
	t.Parallel()
	p := open(t)
	for origin, wanted := range map[string]int{
		p.server.URL: http.StatusOK, "null": http.StatusForbidden,
		"https://evil.example": http.StatusForbidden,
	} {
		b := p.browser(t)
		b.header = http.Header{"Sec-Fetch-Site": {}, "Origin": {origin}}
		b.posts(t, "search", url.Values{"text": {""}}, wanted)
	}
}

func TestTheLongestKeyHasItsPage(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 3, Rate: 1, Window: time.Hour, Lockout: time.Hour})
	for _, key := range []string{strings.Repeat("😀", service.MaxKeyLength), strings.Repeat("<", service.MaxKeyLength)} {
		p.attempt(t, "", service.Bucket{ZoneID: 3, Key: key})
		p.attempt(t, "", service.Bucket{ZoneID: 3, Key: key})
		path, page := p.browser(t).search(t, key)
		sealed := regexp.MustCompile(`history\?key=([\w-]+)|keys/([\w-]+)/release`).FindString(page)
		if !strings.HasPrefix(path, "keys/") || sealed == "" || len(path) > 4096 {
			t.Errorf("a key of %d bytes leads to a path of %d: %s", len(key), len(path), words(page))
		}
	}
	_, page := p.browser(t).get(t, "locked?zone=3")
	for _, link := range regexp.MustCompile(`/console/(keys/[\w-]+)"`).FindAllStringSubmatch(page, -1) {
		p.browser(t).gets(t, link[1], http.StatusOK)
	}
}

func TestALongFormIsRefusedInWords(t *testing.T) {
	t.Parallel()
	p := open(t)
	for _, form := range []url.Values{{"text": {strings.Repeat("x", 1<<20)}}, {"txn": make([]string, 1<<17)}} {
		p.browser(t).posts(t, "search", form, http.StatusForbidden, "it is too long")
	}
	p.browser(t).posts(t, "login", url.Values{"token": {strings.Repeat("x", 1<<20)}}, http.StatusForbidden)
}
