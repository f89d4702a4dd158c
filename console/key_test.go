package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"velocityd/console"
	"velocityd/service"
	"velocityd/service/access"
)

// user is the bucket of a user whose login allows one attempt an hour and then locks, and host one of an address.
func user(key string) service.Bucket { return service.Bucket{ZoneID: 1, Key: key} }
func host(key string) service.Bucket { return service.Bucket{ZoneID: 2, Key: key} }

// guardLogins makes a zone of users and one of addresses.
func (p *place) guardLogins(t *testing.T) {
	t.Helper()
	p.SetZone(t, service.Zone{
		ID: 1, Description: "Login per user", Rate: 1, Window: time.Hour, Lockout: 2 * time.Hour,
		Keys: service.KeyRule{Kind: service.KeyUsername}, Totals: true,
	})
	p.SetZone(t, service.Zone{
		ID: 2, Description: "Login per address", Rate: 9, Window: time.Hour,
		Keys: service.KeyRule{Kind: service.KeyIP},
	})
}

// attempt asks whether an attempt may pass, and returns its decision.
func (p *place) attempt(t *testing.T, id string, buckets ...service.Bucket) service.Decision {
	t.Helper()
	return p.ask(t, service.Check{Buckets: buckets, AttemptID: id})[0]
}

// words returns the text of a page without its markup.
func words(page string) string { return regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, "") }

// search looks for a text, and returns the path of the page that it leads to.
func (b *browser) search(t *testing.T, text string) (path, page string) {
	t.Helper()
	var last string
	b.http.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		last = r.URL.RequestURI()
		return nil
	}
	defer func() { b.http.CheckRedirect = nil }()
	status, page := b.post(t, "search", url.Values{"text": {text}})
	if status != http.StatusOK {
		t.Fatalf("a search is answered with %d, %s", status, page)
	}
	return strings.TrimPrefix(last, console.Path), page
}

func TestSearchFindsDecisionByIDInAnySpelling(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.guardLogins(t)
	p.attempt(t, "5b0c0b3e-7f21-4d3a-9c1e-0a8b7c6d5e4f", user("alice"))
	b := p.browser(t)
	for _, text := range []string{
		" #1 ", "１", "txn 1", "5B0C0B3E7F214D3A9C1E0A8B7C6D5E4F",
		"{5b0c0b3e-7f21-4d3a-9c1e-0a8b7c6d5e4f}",
	} {
		if path, page := b.search(t, text); path != "txns/1" || !strings.Contains(page, "<h1>Decision") {
			t.Errorf("%q leads to %s", text, path)
		}
	}
}

func TestSearchLeadsToKeyAndTellsItsFolding(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.guardLogins(t)
	p.attempt(t, "", user("alice"), host("203.0.113.9"))
	b := p.browser(t)
	path, page := b.search(t, "\u3000Ａlice ")
	if !strings.HasPrefix(path, "keys/") || !strings.Contains(words(page), "kept as alice in Login per user") {
		t.Errorf("%s: %s", path, page)
	}
	if path, page := b.search(t, "::ffff:203.0.113.9"); !strings.HasPrefix(path, "keys/") ||
		!strings.Contains(page, `kept as <bdi class="key">203.0.113.9</bdi>`) {
		t.Errorf("%s: %s", path, page)
	}
}

func TestAmbiguousSearchShowsAllMeanings(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.guardLogins(t)
	p.attempt(t, "", user("1"))
	path, page := p.browser(t).search(t, "1")
	if !strings.HasPrefix(path, "search?key=") || !strings.Contains(page, "As a txn id") ||
		!strings.Contains(page, "As a key") || !strings.Contains(page, "As a zone") {
		t.Errorf("%s: %s", path, page)
	}
}

func TestASearchWithoutAResultTeaches(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.guardLogins(t)
	_, page := p.browser(t).search(t, "Nobody")
	contains(t, words(page), "Nothing here knows Nobody", "never seen", "nobody", "No such key is taken in Login per address",
		"remembered attempt")
	far := regexp.MustCompile(`search\?key=[^"]*far=1`).FindString(page)
	p.browser(t).gets(t, strings.ReplaceAll(far, "&amp;", "&"), http.StatusOK, "no recorded attempt either")
	if _, page := p.browser(t).search(t, "x\x00"); !strings.Contains(page, "U+0000") {
		t.Errorf("a control character: %s", page)
	}
	p.browser(t).gets(t, "search", http.StatusOK, "Any spelling will do")
}

func TestNoKeyStandsInAnAddress(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.guardLogins(t)
	p.attempt(t, "", user("alice@example.org"), host("203.0.113.9"))
	path, page := p.browser(t).search(t, "Alice@Example.org")
	_, decision := p.browser(t).get(t, "txns/1")
	for _, address := range append(regexp.MustCompile(`(?:href|action|src)="([^"]*)"`).FindAllString(page+decision, -1),
		path) {
		if lower := strings.ToLower(address); strings.Contains(lower, "alice") || strings.Contains(lower, "203.0.113") {
			t.Errorf("a key stands in %s", address)
		}
	}
}

func TestAKeyTellsItsStoryInEveryZone(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.guardLogins(t)
	p.SetZone(t, service.Zone{
		ID: 3, Description: "Resets", Rate: 3, Window: time.Hour,
		Keys: service.KeyRule{Kind: service.KeyUsername},
	})
	p.SetZone(t, service.Zone{
		ID: 4, Description: "Unused", Rate: 3, Window: time.Hour,
		Keys: service.KeyRule{Kind: service.KeyUsername},
	})
	p.attempt(t, "", user("alice"), host("203.0.113.9"))
	p.attempt(t, "", user("alice"), host("192.0.2.1"))
	p.attempt(t, "", service.Bucket{ZoneID: 3, Key: "alice"})
	_, page := p.browser(t).search(t, "alice")
	contains(t, words(page), "Locked in Login per user", "Lock ends", "1 of 1", "1 of 3", "Never seen in", "Unused",
		"3 checks, since", "Blocked · lock begins")
	contains(t, page, "data-until", `>203.0.113.9</bdi></a>`, `>192.0.2.1</bdi></a>`, `class="lock"`,
		">2</dd><dt>Allowed</dt><dd>1<",
		`aria-label="Attempts of the last 1 h. Login per user: 1 allowed, 1 blocked, locked 1 times;`)
}

func TestKeyPageTellsReleasesWithAuthorAndReason(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.guardLogins(t)
	p.attempt(t, "", user("alice"), host("203.0.113.9"))
	p.attempt(t, "", user("alice"), host("203.0.113.9"))
	b := p.browser(t)
	if _, page := b.search(t, "alice"); !strings.Contains(words(page), "None, by the newest fifty lockouts and releases") {
		t.Errorf("before a release: %s", words(page))
	}
	if err := p.Release(t.Context(), user("alice"), "dora", "ticket 7 "+hostile); err != nil {
		t.Fatal(err)
	}
	_, page := b.search(t, "alice")
	contains(t, page, ">dora</bdi>", "ticket 7 &lt;img", `class="released"`, "locked 1 times, released 1 times")
	lacks(t, page, "<img")
	if _, page := b.search(t, "203.0.113.9"); strings.Contains(page, ">dora</bdi>") {
		t.Error("the address is said to be released")
	}
}

func TestActionsFromKeyPageAreDoneAndAudited(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	p.guardLogins(t)
	p.attempt(t, "", user("alice"))
	if d := p.attempt(t, "", user("alice")); !d.Blocked {
		t.Fatal("alice is not locked")
	}
	b := p.person(t, "dora", access.ScopeAdmin).logIn(t)
	path, page := b.search(t, "ALICE")
	bucket := regexp.MustCompile(`name="bucket" value="([^"]*)"`).FindStringSubmatch(page)[1]
	do := func(action string, form url.Values) (status int, page string) {
		form.Set("bucket", bucket)
		return b.post(t, path+"/"+action, form)
	}
	if status, page := do("release", url.Values{"reason": {" "}}); status != http.StatusBadRequest ||
		!strings.Contains(page, "Must not be empty") {
		t.Errorf("without a reason: %d, %s", status, page)
	}
	if status, page := do("release", url.Values{"reason": {"T-1"}}); status != http.StatusOK ||
		!strings.Contains(page, "The buckets are released") {
		t.Errorf("release: %d, %s", status, page)
	}
	if _, page := do("override", url.Values{
		"action": {"limit"}, "rate": {"7"}, "lasts": {"3600"},
		"reason": {"T-2"},
	}); !strings.Contains(page, "Limit 7<") {
		t.Errorf("limit: %s", page)
	}
	if status, _ := do(
		"override", url.Values{"action": {"allow"}, "lasts": {"never"}, "reason": {"T-3"}}); status != http.StatusConflict {
		t.Errorf("a second override is answered with %d", status)
	}
	if _, page := b.post(t, "overrides/1/1", url.Values{
		"action": {"deny"}, "lasts": {"until"}, "expires_at": {"2190-01-01T00:00"}, "reason": {"T-3"},
	}); !strings.Contains(page, "Always deny</span>") {
		t.Errorf("deny: %s", page)
	}
	if _, page := b.post(t, "overrides/1/1/delete", url.Values{"reason": {"T-4"}}); !strings.Contains(
		page, "The override was deleted") {
		t.Errorf("drop: %s", page)
	}
	var stands []string
	for _, a := range p.Audits() {
		stands = append(stands, a.Principal+": "+a.Action+", "+a.Reason)
	}
	want := "[dora: release bucket, T-1 dora: add override, T-2 dora: set override, T-3 dora: delete override, T-4]"
	if got := fmt.Sprint(stands); got != want {
		t.Errorf("the audit has %s, want %s", got, want)
	}
	if d := p.attempt(t, "", user("alice")); d.Blocked {
		t.Error("alice is still locked")
	}
}

func TestWrongFormIsAnsweredInWords(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.guardLogins(t)
	p.attempt(t, "", user("alice"))
	b := p.browser(t)
	path, page := b.search(t, "alice")
	bucket := regexp.MustCompile(`name="bucket" value="([^"]*)"`).FindStringSubmatch(page)[1]
	for _, form := range map[string]url.Values{
		"rate":   {"action": {"limit"}, "lasts": {"never"}},
		"window": {"action": {"limit"}, "rate": {"1"}, "window": {"1.5"}, "lasts": {"never"}},
		"life":   {"action": {"allow"}, "lasts": {"-1"}},
		"until":  {"action": {"allow"}, "lasts": {"until"}, "expires_at": {"tomorrow"}},
		"action": {"action": {"bless"}, "lasts": {"never"}},
	} {
		form.Set("bucket", bucket)
		form.Set("reason", "test")
		b.posts(t, path+"/override", form, http.StatusBadRequest, `<p class="lead">`)
	}
	b.posts(t, path+"/release", url.Values{"bucket": {"forged"}, "reason": {"x"}}, http.StatusBadRequest)
	b.gets(t, "keys/forged", http.StatusNotFound, "Search for the key again")
}

func TestReaderIsShownActionsOfOwnScopesAlone(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	p.guardLogins(t)
	p.attempt(t, "", user("alice"))
	analyst := p.person(t, "ana", access.ScopePeek, access.ScopeHistory)
	desk := p.person(t, "hal", access.ScopePeek, access.ScopeHistory, access.ScopeRelease)
	looker := p.person(t, "lou", access.ScopePeek)
	caller := p.person(t, "cal", access.ScopeCheck)
	for b, want := range map[*browser][]bool{
		analyst: {false, false, true}, desk: {true, false, true},
		looker: {false, false, false},
	} {
		b.logIn(t)
		path, page := b.search(t, "alice")
		for i, text := range []string{"Release…", "Allow, deny or limit…", "Newest attempts"} {
			if strings.Contains(page, text) != want[i] {
				t.Errorf("a reader with %v is shown %q: %t", want, text, !want[i])
			}
		}
		bucket := regexp.MustCompile(`keys/([^/"]+)`).FindStringSubmatch(path)[1]
		if status, _ := b.post(t, path+"/override",
			url.Values{"bucket": {bucket}, "action": {"allow"}, "lasts": {"never"}, "reason": {"x"}}); status == http.StatusOK {
			t.Error("an override was made without the scope")
		}
	}
	caller.logIn(t)
	if _, page := caller.search(t, "alice"); strings.Contains(page, "never seen") ||
		!strings.Contains(page, "takes the scope <code>peek</code>") {
		t.Errorf("a caller is shown %s", page)
	}
	caller.gets(t, "txns/1", http.StatusForbidden)
}

func TestForgottenAttemptIsFoundByFarSearch(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.guardLogins(t)
	p.attempt(t, "login-4711", user("alice"))
	p.Age(user("alice"), 48*time.Hour)
	b := p.browser(t)
	path, page := b.search(t, "login-4711")
	contains(t, words(page), "Nothing here knows login-4711")
	b.gets(t, path+"&far=1", http.StatusOK, "<h1>Decision")
}
