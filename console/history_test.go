package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"velocityd/console"
	"velocityd/service"
	"velocityd/service/access"
)

// ask asks for attempts, one after the other.
func (p *place) ask(t *testing.T, checks ...service.Check) []service.Decision {
	t.Helper()
	decisions, err := service.NewLimiter(p, service.LimiterOptions{Zones: p, Timeout: time.Minute}).CheckAll(
		t.Context(), checks)
	if err != nil {
		t.Fatal(err)
	}
	for _, decision := range decisions {
		if decision.Err != nil {
			t.Fatal(decision.Err)
		}
	}
	return decisions
}

// of returns a check of buckets: a zone, a key, and so on.
func of(zonesAndKeys ...any) (check service.Check) {
	for i := 0; i < len(zonesAndKeys); i += 2 {
		check.Buckets = append(
			check.Buckets, service.Bucket{ZoneID: int64(zonesAndKeys[i].(int)), Key: zonesAndKeys[i+1].(string)})
	}
	return check
}

// link returns the address of the first link whose text matches, behind /console/.
func link(t *testing.T, page, text string) string {
	t.Helper()
	found := regexp.MustCompile(`<a[^>]*href="/console/([^"]*)"[^>]*>` + text + `</a>`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("there is no link %q in %s", text, page)
	}
	return strings.ReplaceAll(found[1], "&amp;", "&")
}

// rows returns how many attempts the lines of a list of checks stand for.
func rows(page string) (attempts int) {
	for _, sum := range regexp.MustCompile(`<td class="num sum">(\d+)</td>`).FindAllStringSubmatch(page, -1) {
		n, _ := strconv.Atoi(sum[1])
		attempts += n
	}
	return attempts
}

func TestAFloodDoesNotFillThePage(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 2, Window: time.Hour})
	p.SetZone(t, service.Zone{ID: 2, Rate: 1000, Window: time.Hour})
	p.ask(t, of(1, "alice", 2, "203.0.113.8"))
	for range 120 {
		p.ask(t, of(1, "admin", 2, "203.0.113.7"))
	}
	_, page := p.browser(t).get(t, "history")
	if rows(page) != 121 || !strings.Contains(page, "118 ×, ") || !strings.Contains(page, ">alice<") ||
		strings.Contains(page, "Looked at") {
		t.Errorf("a flood of 120 attempts leaves %d attempts on the page:\n%s", rows(page), page)
	}
}

func TestRunsOfTheSameAreOneLine(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 2, Window: time.Hour})
	p.SetZone(t, service.Zone{ID: 2, Rate: 100, Window: time.Hour})
	for range 5 {
		p.ask(t, of(1, "admin", 2, "203.0.113.7"))
	}
	p.ask(t, of(1, "admin", 2, "203.0.113.8"))
	_, page := p.browser(t).get(t, "history")
	if n := strings.Count(page, `<td class="num sum">`); n != 2 || rows(page) != 6 || !strings.Contains(page, "4 ×, ") ||
		!strings.Contains(page, "and 1 more") {
		t.Errorf("6 attempts are %d lines of %d attempts:\n%s", n, rows(page), page)
	}
	if strings.Count(page, `<td class="from"><ul class="plain"><li>`) != 2 {
		t.Error("the addresses have no column of their own")
	}
}

func TestTheFiltersInTheAddressChooseTheAttempts(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
	p.SetZone(t, service.Zone{ID: 2, Rate: 9, Window: time.Hour, Mode: service.ModeShadow})
	named := of(1, "carol")
	named.AttemptID = "login-7"
	decisions := p.ask(t, of(1, "alice"), of(1, "alice"), of(2, "bob"), named)
	if _, err := p.ReportAll(
		t.Context(), []service.Report{{TxnID: decisions[0].TxnID(), Outcome: service.OutcomeFailure}}); err != nil {
		t.Fatal(err)
	}
	b := p.browser(t)
	for query, want := range map[string]int{
		"": 4, "zone=1": 3, "zone=2": 1, "zone=": 4, "blocked=true": 1, "blocked=false": 3, "blocked=would_be": 1,
		"outcome=failure": 1,
		"outcome=success": 0, "outcome=none": 3, "attempt_id=login-7": 1, "within=hour": 4, "since=2020-01-01T00:00": 4,
		"until=2020-01-01T00:00:00": 0, "zone=1&blocked=false&within=day": 2, "live=on": 4,
	} {
		status, page := b.get(t, "history?"+query)
		if status != http.StatusOK || rows(page) != want {
			t.Errorf("%q is answered with %d and %d attempts, want %d", query, status, rows(page), want)
		}
		if isLive := strings.Contains(page, "data-live"); isLive != (query == "live=on") {
			t.Errorf("%q is live: %t", query, isLive)
		}
	}
	for _, query := range []string{
		"zone=x", "zone=0", "blocked=maybe", "outcome=x", "within=x", "since=x", "key=x", "before=x", "block=true",
		"zone=1&zone=2", "attempt_id=%00", "since=2026-01-02T00:00:00&until=2026-01-01T00:00:00",
	} {
		if status, page := b.get(t, "history?"+query); status != http.StatusBadRequest || rows(page) != 0 {
			t.Errorf("%q is answered with %d and %d attempts", query, status, rows(page))
		}
	}
}

func TestKeyFilterIsSealedAndKeepsItsZone(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour, Description: "users"})
	p.SetZone(t, service.Zone{ID: 2, Rate: 50, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	for i := range 16 {
		p.ask(t, of(1, fmt.Sprint("user-", i), 2, "192.0.2.7"))
	}
	b := p.browser(t)
	_, attacks := b.get(t, "attacks")
	if list := link(t, attacks, "16"); strings.Contains(list, "192.0.2.7") {
		t.Errorf("the link to the users of an address is %s", list)
	}
	path := link(t, attacks[strings.Index(attacks, "/beside?")+100:], "16")
	if strings.Contains(path, "192.0.2.7") || !strings.Contains(path, "key=") {
		t.Fatalf("the link to the attempts of an address is %s", path)
	}
	status, page := b.get(t, path)
	if status != http.StatusOK || rows(page) != 16 || !strings.Contains(page, ">192.0.2.7</bdi>") ||
		!strings.Contains(page, ">user-15</bdi>") {
		t.Errorf("%s is answered with %d and %d attempts", path, status, rows(page))
	}
	if strings.Contains(page, `href="/console/history?key=192`) {
		t.Error("a link names the key")
	}
}

func TestOlderAttemptsComeByTheCursor(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 100, Window: time.Hour})
	for i := range 70 {
		p.ask(t, of(1, fmt.Sprintf("user-%d", i%2))) // no two beside each other are one line
	}
	b := p.browser(t)
	_, first := b.get(t, "history?zone=1")
	if rows(first) != 50 {
		t.Fatalf("the first page has %d attempts", rows(first))
	}
	p.ask(t, of(1, "alice"))
	_, second := b.get(t, link(t, first, "Older"))
	if rows(second) != 20 || strings.Contains(second, ">Older</a>") {
		t.Errorf("the second page has %d attempts", rows(second))
	}
}

func TestExportHoldsFilteredTxnsAndIsAudited(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
	p.ask(t, of(1, "alice"), of(1, "alice"), of(1, "bob"))
	carol, dave := p.person(t, "carol", access.ScopeHistory), p.person(t, "dave", access.ScopePeek)
	carol.logIn(t)
	dave.logIn(t)
	status, text := carol.get(t, "history.csv?blocked=true&live=on&before=1")
	if lines := strings.Split(strings.TrimSpace(text), "\r\n"); status != http.StatusOK || len(lines) != 2 ||
		!strings.Contains(lines[1], `"alice"`) {
		t.Errorf("the export is %d, %q", status, text)
	}
	answer, err := carol.http.Get(p.server.URL + console.Path + "history.ndjson?blocked=false")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if kept := answer.Header.Get("Content-Disposition"); !strings.HasPrefix(kept, `attachment; filename="attempts-`) ||
		answer.StatusCode != http.StatusOK {
		t.Errorf("NDJSON is answered with %d, as %q", answer.StatusCode, kept)
	}
	var names []string
	for _, audit := range p.Audits() {
		if strings.Contains(audit.Action, "export") {
			names = append(names, audit.Principal)
		}
	}
	if fmt.Sprint(names) != "[carol carol]" {
		t.Errorf("the audit has exports of %v", names)
	}
	dave.gets(t, "history.csv", http.StatusForbidden, "<h1>Your credential does not allow this.</h1>")
}

func TestALookerIsShownLockoutsAndReleasesNone(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Lockout: time.Hour})
	p.ask(t, of(1, "alice"), of(1, "alice"))
	looker := p.person(t, "looker", access.ScopePeek).logIn(t)
	_, first := looker.get(t, "")
	lacks(t, first, `href="/console/history"`, `href="/console/attacks"`)
	for _, path := range []string{"history", "attacks"} {
		looker.gets(t, path, http.StatusForbidden)
	}
	looker.posts(t, "locked/release", url.Values{"zone": {"1"}, "txn": {"2"}, "reason": {"x"}}, http.StatusForbidden)
	page := looker.gets(t, "locked?zone=1", http.StatusOK, ">alice</bdi>")
	lacks(t, page, "Release")
}
