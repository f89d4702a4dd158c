package console_test

import (
	"net/http"
	"testing"

	"velocityd/service"
)

func TestADecisionHasItsReasonAndCountedRows(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.guardLogins(t)
	p.attempt(t, "", user("alice"), host("203.0.113.9"))
	p.attempt(t, "login-2", user("alice"), host("203.0.113.9"))
	status, page := p.browser(t).get(t, "txns/3")
	if status != http.StatusOK {
		t.Errorf("a decision is answered with %d", status)
	}
	contains(t, words(page), "Blocked: 1 of 1 attempts since", "The window, as it was", "Blocked · by another limit",
		"Login per address", "203.0.113.9",
		"login-2", "1 attempt in 1 h", "As JSON", "The key now", "Locked")
	contains(t, page, `class="hit"`, `class="in"`, "1 attempts counted between", `href="/console/txns/1"`, `rel="prev"`,
		`data-copy="#json"`, "&#34;summary&#34;")
	p.browser(t).gets(t, "txns/1", http.StatusOK, "Allowed: it was attempt 1 of 1", "No earlier attempt counted")
}

func TestDecisionOutlivesZoneAndMissingOneIsTold(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.guardLogins(t)
	p.attempt(t, "", user("alice"))
	if err := p.DeleteZone(t.Context(), 1, service.Match{}, ""); err != nil {
		t.Fatal(err)
	}
	status, page := p.browser(t).get(t, "txns/1")
	if status != http.StatusOK {
		t.Errorf("a zone that is gone is answered with %d", status)
	}
	contains(t, words(page), "Allowed: it was attempt 1 of 1", "1 attempt in 1 h")
	lacks(t, page, "The key now")
	for _, path := range []string{"txns/99", "txns/0", "txns/x", "txns/-1"} {
		p.browser(t).gets(t, path, http.StatusNotFound, `<p class="lead">`)
	}
}
