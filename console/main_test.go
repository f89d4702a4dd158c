package console_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/console"
	"velocityd/handlers"
	"velocityd/handlers/admission"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/audit"
	"velocityd/service/memory"
	"velocityd/tools/servicetest"
)

// place is a console over the reference store, on a real socket with TLS, and its clock.
type place struct {
	*memory.Store
	credentials *servicetest.Credentials
	server      *httptest.Server
	backtests   handlers.Backtests // nil: there are none
	examine     service.Examine    // nil: there is none
	audit       []audit.Entry      // the newest first; nil: that of the store
	onAudit     func()             // is called for each page of audit
	proxies     admission.Proxies  // that the interface believes
	busy        bool               // reports are
	reports     chan struct{}      // says that a report begins, and lets it go on; nil: it does at once
	away        bool               // overrides are
	busyZone    int64              // whose keys cannot be looked at
	unready     error              // why checks cannot be decided; nil: they can
	mu          sync.Mutex
	later       time.Duration // by how much the console's clock is ahead
}

// open returns a console that asks for no credential.
func open(t *testing.T) *place {
	t.Helper()
	return newPlace(t, false)
}

// guarded returns a console whose readers must log in.
func guarded(t *testing.T, change ...func(*console.Options)) *place {
	t.Helper()
	return newPlace(t, true, change...)
}

func newPlace(t *testing.T, asksWho bool, change ...func(*console.Options)) *place {
	t.Helper()
	p := &place{Store: memory.New(), credentials: new(servicetest.Credentials)}
	p.start(t, asksWho, change...)
	return p
}

// start makes an instance of the console over p's stores, and lets p's browsers ask it from now on.
func (p *place) start(t *testing.T, asksWho bool, change ...func(*console.Options)) {
	t.Helper()
	o := handlers.Options{
		Limiter: service.NewLimiter(p, service.LimiterOptions{Zones: p, Timeout: time.Minute}), Reader: p, Writer: p,
		Exports: p, Retention: p, Webhooks: p.Store, Backtests: p.backtests, Registry: p.credentials, Examine: p.examine,
		Ready:      func(context.Context) error { return p.unready },
		ReadySince: func() time.Time { return time.Date(2026, 11, 27, 12, 30, 1, 0, time.UTC) },
	}
	if asksWho {
		cache := access.NewCache(p.credentials, access.Options{})
		t.Cleanup(cache.Close)
		o.Auth = handlers.Auth{Admission: admission.Admission{Callers: cache, Txns: p}, TrustedProxies: p.proxies}
	}
	pages := console.Options{API: handlers.New(o), Limiter: o.Limiter, Outcomes: p, Now: p.now}
	for _, c := range change {
		c(&pages)
	}
	handler, err := console.New(pages)
	if err != nil {
		t.Fatal(err)
	}
	p.server = httptest.NewTLSServer(handler)
	t.Cleanup(p.server.Close)
}

func (p *place) now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.later)
}

// pass lets the console's clock go on.
func (p *place) pass(length time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.later += length
}

// browser keeps cookies and follows redirects, and sends the headers by which a browser says that a page of this origin
// asks.
type browser struct {
	*place
	http  *http.Client
	token string // of a person
	// header is what each request has besides.
	header http.Header
}

// browser returns one without a login.
func (p *place) browser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := *p.server.Client()
	client.Jar = jar
	return &browser{place: p, http: &client}
}

// person returns the browser of a person with a token of these scopes. All persons of a test must be made
// before the first page is asked for: the service looks for new tokens once a second.
func (p *place) person(t *testing.T, name string, scopes ...access.Scope) *browser {
	t.Helper()
	b := p.browser(t)
	b.token = p.credentials.AddToken(access.Caller{Name: name, Scopes: scopes}).Reveal()
	return b
}

// logIn logs the person in.
func (b *browser) logIn(t *testing.T) *browser {
	t.Helper()
	if status, page := b.post(t, "login", url.Values{"token": {b.token}}); status != http.StatusOK ||
		strings.Contains(page, "<h1>Log in</h1>") {
		t.Fatalf("log in: %d, %s", status, page)
	}
	return b
}

// get loads a page; path begins behind /console/.
func (b *browser) get(t *testing.T, path string) (status int, page string) {
	t.Helper()
	return b.ask(t, http.MethodGet, path, nil)
}

// post sends a form.
func (b *browser) post(t *testing.T, path string, form url.Values) (status int, page string) {
	t.Helper()
	return b.ask(t, http.MethodPost, path, form)
}

// gets loads a page, which must have a status and all of some texts.
func (b *browser) gets(t *testing.T, path string, want int, texts ...string) (page string) {
	t.Helper()
	return b.wants(t, http.MethodGet, path, nil, want, texts)
}

// posts sends a form, whose answer must have a status and all of some texts.
func (b *browser) posts(t *testing.T, path string, form url.Values, want int, texts ...string) {
	t.Helper()
	b.wants(t, http.MethodPost, path, form, want, texts)
}

func (b *browser) wants(t *testing.T, method, path string, form url.Values, want int, texts []string) (page string) {
	t.Helper()
	status, page := b.ask(t, method, path, form)
	if status != want {
		t.Errorf("%s %s is answered with %d, want %d: %s", method, path, status, want, page)
	}
	contains(t, page, texts...)
	return page
}

func (b *browser) ask(t *testing.T, method, path string, form url.Values) (status int, page string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, b.server.URL+console.Path+path,
		strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	maps.Copy(r.Header, b.header)
	answer, err := b.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, strings.ReplaceAll(string(text), "<wbr>", "") // names may break anywhere
}
