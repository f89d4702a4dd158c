package console_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/access"
)

func TestEachPageAndActionNeedsItsScope(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	p.guardLogins(t)
	p.SetZone(t, service.Zone{ID: 3, Rate: 3, Window: time.Hour})
	p.attempt(t, "", user("alice"))
	p.attempt(t, "", user("alice")) // txn 2 begins a lockout
	if _, err := p.AddOverride(t.Context(),
		service.Override{ZoneID: 2, Key: "192.0.2.1", Action: service.OverrideDeny, Reason: "r"}, "carol"); err != nil {
		t.Fatal(err)
	}
	var people []*browser
	for _, preset := range access.Presets() { // fewest scopes first: no action is done before its refusal
		people = append(people, p.person(t, string(preset), preset.Scopes(nil)...))
	}
	_, page := people[0].logIn(t).get(t, "history")
	sealed := regexp.MustCompile(`/console/keys/([\w-]+)`).FindStringSubmatch(page)[1]
	for _, one := range requests(sealed) {
		for i, preset := range access.Presets() {
			if one.path == "" && one.form == nil {
				people[i].logIn(t)
			}
			method := http.MethodGet
			if one.form != nil {
				method = http.MethodPost
			}
			scopes := preset.Scopes(nil)
			may := one.needs == free || slices.Contains(scopes, one.needs) || slices.Contains(scopes, access.ScopeAdmin)
			status, page := people[i].ask(t, method, one.path, one.form)
			if (status == http.StatusForbidden) == may || !may && strings.Contains(page, `name="reason"`) {
				t.Errorf("%s %s of a reader with the preset %s is answered with %d, %s", method, one.path, preset, status,
					words(page))
			}
		}
	}
}

// free is the scope of pages that each preset may see.
const free = access.Scope("")

// request is a page or an action, and the scope that it needs.
type request struct {
	path  string
	form  url.Values // nil: it is a page
	needs access.Scope
}

// requests returns the requests of all pages and actions, about the records that the test has made. sealed is the
// bucket of alice.
func requests(sealed string) []request {
	why := func(values ...string) url.Values {
		form := url.Values{"reason": {"a ticket"}}
		for i := 1; i < len(values); i += 2 {
			form.Set(values[i-1], values[i])
		}
		return form
	}
	return []request{
		{"", nil, free},
		{"history", nil, free},
		{"history.csv", nil, free},
		{"locked", nil, free},
		{"locked?zone=1", nil, free},
		{"attacks", nil, free},
		{"zones", nil, free},
		{"zones/1", nil, free},
		{"zones/1/versions", nil, free},
		{"audit", nil, free},
		{"search", nil, free},
		{"txns/1", nil, free},
		{"keys/" + sealed, nil, free},
		{"health", nil, free},
		{"search", url.Values{"text": {"alice"}}, free},
		{"zones/new", nil, access.ScopeZones},
		{"zones/1/edit", nil, access.ScopeZones},
		{"zones/1/versions/1", nil, access.ScopeZones},
		{"overrides", nil, access.ScopeOverrides},
		{"overrides/2/1", nil, access.ScopeOverrides},
		{"tokens", nil, access.ScopeAdmin},

		{"zones/new", url.Values{"do": {"look"}}, access.ScopeZones},
		{"zones/new", why("id", "9", "rate", "5", "window", "60"), access.ScopeZones},
		{"zones/1/edit", url.Values{"do": {"look"}}, access.ScopeZones},
		{"zones/1/edit", why("do", "save", "revision", "1"), access.ScopeZones},
		{"zones/1/versions/1", why("typed", "1"), access.ScopeZones},
		{"zones/3/delete", why("typed", "3"), access.ScopeZones},
		{"overrides", why("zone", "1", "bucket_key", "bob", "action", "deny", "lasts", "never"), access.ScopeOverrides},
		{"overrides/2/1", why("action", "allow", "lasts", "never"), access.ScopeOverrides},
		{"overrides/2/1/delete", why(), access.ScopeOverrides},
		{"keys/" + sealed + "/override", why("bucket", sealed, "action", "allow", "lasts", "never"), access.ScopeOverrides},
		{"keys/" + sealed + "/release", why("bucket", sealed), access.ScopeRelease},
		{"locked/release", why("zone", "1", "txn", "2"), access.ScopeRelease},
		{"locked/release-all", why("zone", "1", "confirm", "1"), access.ScopeRelease},
		{"health/webhooks/1", nil, access.ScopeAdmin},
		{"health/webhooks/1/resend", why(), access.ScopeAdmin},
		{"tokens/1/revoke", why("typed", "nobody"), access.ScopeAdmin},
	}
}

func TestReaderOfOneScopeGetsEachMenuPage(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	p.guardLogins(t)
	people := map[access.Scope]*browser{}
	for _, scope := range access.Scopes() {
		people[scope] = p.person(t, string(scope), scope)
	}
	for scope, least := range map[access.Scope]int{
		access.ScopePeek: 3, access.ScopeRelease: 1, access.ScopeZones: 1, access.ScopeOverrides: 2, access.ScopeHistory: 6,
		access.ScopeAdmin: 9,
	} {
		b := people[scope]
		_, page := b.logIn(t).get(t, "")
		menu, _, _ := strings.Cut(page, "</nav>")
		_, menu, _ = strings.Cut(menu, "<nav")
		entries := regexp.MustCompile(`href="/console/([a-z]*)"`).FindAllStringSubmatch(menu, -1)
		if len(entries) < least {
			t.Errorf("a reader with %s has the menu %v", scope, entries)
		}
		for _, entry := range entries {
			if status, page := b.get(t, entry[1]); status != http.StatusOK ||
				strings.Contains(page, "shows nothing of this page") {
				t.Errorf("%q of the menu of a reader with %s is answered with %d, %s", entry[1], scope, status, words(page))
			}
		}
	}
}
