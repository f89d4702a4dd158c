package console_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"velocityd/service/access"
)

func TestBoundReaderCannotOpenOtherZonesKeyLink(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	p.guardLogins(t)
	p.attempt(t, "", user("victim"))
	admin, bound := p.person(t, "root", access.ScopeAdmin), p.browser(t)
	bound.token = p.credentials.AddToken(access.Caller{
		Name: "bound", Zones: []int64{2},
		Scopes: []access.Scope{access.ScopePeek, access.ScopeHistory},
	}).Reveal()
	_, page := admin.logIn(t).get(t, "history")
	sealed := regexp.MustCompile(`/console/keys/([\w-]+)`).FindStringSubmatch(page)
	if sealed == nil {
		t.Fatalf("the history is %s", page)
	}
	bound.logIn(t)
	for _, path := range []string{"keys/" + sealed[1], "search?key=" + sealed[1], "history?key=" + sealed[1]} {
		admin.gets(t, path, http.StatusOK, "victim")
		if status, page := bound.get(t, path); status < http.StatusBadRequest || strings.Contains(page, "victim") {
			t.Errorf("the bound reader gets %d for %s: %s", status, path, page)
		}
	}
}

func TestZoneBoundReaderGetsEachShownPage(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	p.guardLogins(t)
	p.attempt(t, "", user("alice"), host("192.0.2.1"))
	dba, admin := p.browser(t), p.browser(t)
	dba.token = p.credentials.AddToken(access.Caller{
		Name: "dba", Zones: []int64{1},
		Scopes: []access.Scope{
			access.ScopeHistory, access.ScopePeek, access.ScopeRelease, access.ScopeOverrides,
			access.ScopeZones,
		},
	}).Reveal()
	admin.token = p.credentials.AddToken(
		access.Caller{Name: "admin", Zones: []int64{1}, Scopes: []access.Scope{access.ScopeAdmin}}).Reveal()
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
		b.gets(t, entry[1], http.StatusOK)
	}
	if _, page := b.search(t, "alice"); !strings.Contains(page, "<h1><bdi class=\"key\">alice</bdi></h1>") ||
		!strings.Contains(page, "Newest attempts") {
		t.Errorf("the key is shown as %s", words(page))
	}
	for _, path := range []string{
		"zones/1", "zones/1/edit", "zones/1/versions", "overrides?zone=1", "locked?zone=1",
		"history?zone=1", "attacks?users=1",
	} {
		b.gets(t, path, http.StatusOK)
	}
	b.gets(t, "txns/1", http.StatusNotFound, "zones that are not yours")
}
