package console_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/audit"
)

// AuditEntries implements audit.Reader with the entries that a test gives.
func (p *place) AuditEntries(ctx context.Context, q audit.Query) (audit.Page, error) {
	if p.audit == nil {
		return p.Store.AuditEntries(ctx, q)
	}
	var behind []audit.Entry
	for _, e := range p.audit {
		if q.Cursor == 0 || e.ID < q.Cursor {
			behind = append(behind, e)
		}
	}
	if p.onAudit != nil {
		p.onAudit()
	}
	return audit.NewPage(q, behind[:min(len(behind), audit.MaxScan)], audit.MaxScan), nil
}

// state is a row of a zone as the audit has it.
func state(rate int) json.RawMessage {
	return json.RawMessage(
		fmt.Sprintf(`{"id":1,"description":"login","rate":%d,"window":60,"period":"none","period_offset":0,"period_anchor":1,
		"mode":"enforce","counts":"failures","reserve_ttl":null,"reset_on_success":1,"concurrent":0,"repeat_secret":"count","lockout":0,
		"lockout_factor":2.00,"lockout_max":86400,"lockout_decay":86400,"key_kind":"username","key_form":"clear","ipv4_prefix":32,
		"ipv6_prefix":64,"on_failure":"error","record_blocked":0,"keep_days":0,"totals":0,"revision":%d}`, rate, rate))
}

// audited returns a console whose zone 1 was changed three times, and lost an override.
func audited(t *testing.T) *place {
	t.Helper()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 50, Window: time.Minute})
	at := time.Date(2020, 11, 27, 10, 0, 0, 0, time.UTC)
	p.audit = []audit.Entry{
		{
			ID: 9, At: service.At(at), Principal: "eve " + hostile, Subject: "zone", Action: "update", ZoneID: 1,
			Before: state(9), After: state(50),
		},
		{
			ID: 8, At: service.At(at), Account: "root@localhost", Subject: "override", Action: "delete", ZoneID: 1,
			OverrideID: 3, Before: json.RawMessage(
				`{"bucket_key":"alice","prefix":null,"action":"limit","rate":7,"window":null,"period_anchor":null,"expires_at":null,"reason":"VIP","created_by":"ann"}`),
		},
		{
			ID: 7, At: service.At(at), Principal: "carol", Reason: "ticket 4711", Subject: "zone", Action: "update", ZoneID: 1,
			Before: state(5), After: state(9),
		},
		{
			ID: 6, At: service.At(at), Principal: "carol", Subject: "bucket", Action: "release", ZoneID: 1,
			Reason: "called us", After: json.RawMessage(`{"bucket_key":"bob","reason":"called us"}`),
		},
		{ID: 5, At: service.At(at), Principal: "carol", Subject: "zone", Action: "insert", ZoneID: 1, After: state(5)},
	}
	return p
}

func TestTheAuditTellsAuthorChangeAndReason(t *testing.T) {
	t.Parallel()
	b := audited(t).browser(t)
	page := b.gets(t, "audit", http.StatusOK, "carol", "ticket 4711", "changed a zone", "deleted override 3",
		"released a key", "&lt;img", "root@localhost", `<bdi class="key">9</bdi>`, "called us")
	_, release, _ := strings.Cut(page, "released a key")
	release, _, _ = strings.Cut(release, "</tr>")
	contains(t, release, ">bob</bdi></a>", `data-label="reason"><bdi class="key">called us</bdi>`)
	lacks(t, release, "bucket_key", "<details", "values")
	_, change, _ := strings.Cut(page, "changed a zone")
	change, _, _ = strings.Cut(change, "</tr>")
	contains(t, change, "<del>", "<ins>") // a small difference is in the row itself
	lacks(t, change, "<details")
	lacks(t, page, "<img", "keys/bob")
	page = b.gets(t, "audit?by=carol&subject=bucket&action=release&zone=1", http.StatusOK, "released a key")
	lacks(t, page, "changed a zone")
	b.gets(t, "audit?within=1", http.StatusOK, "Nothing of this was done")
	for _, wrong := range []string{"subject=house", "zone=x", "within=9223372036854775807"} {
		if status, page := b.get(t, "audit?"+wrong); status != http.StatusBadRequest || strings.Contains(page, "carol") {
			t.Errorf("an audit with %s is answered with %d", wrong, status)
		}
	}
}

// manyEntries are n changes of zone 1 a second apart, of which the oldest are releases of alice.
func manyEntries(n, releases int) (list []audit.Entry) {
	end := time.Date(2020, 11, 27, 10, 0, 0, 0, time.UTC)
	for i := range n {
		e := audit.Entry{
			ID: uint64(n - i), At: service.At(end.Add(-time.Duration(i) * time.Second)), Principal: "carol", Subject: "zone",
			Action: "update", ZoneID: 1, Before: state(1), After: state(2),
		}
		if i >= n-releases {
			e.Subject, e.Action, e.Before, e.After = "bucket", "release", nil, json.RawMessage(`{"bucket_key":"alice"}`)
		}
		list = append(list, e)
	}
	return list
}

// older returns the path to which the end of a page of the audit leads.
func older(t *testing.T, page string) string {
	t.Helper()
	found := regexp.MustCompile(`href="(\?[^"]*before=[^"]*)"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page leads no further: %s", words(page))
	}
	return "audit" + strings.ReplaceAll(found[1], "&amp;", "&")
}

func TestTheAuditSearchesOnUntilAPageIsFull(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 50, Window: time.Minute})
	p.audit = manyEntries(4100, 60)
	b := p.browser(t)
	page := b.gets(t, "audit?action=release", http.StatusOK, ">Older</a>")
	if n := strings.Count(page, "released a key"); n != 50 {
		t.Errorf("a page has %d entries, want 50", n)
	}
	lacks(t, page, "Looked back")
	page = b.gets(t, older(t, page), http.StatusOK)
	if n := strings.Count(page, "released a key"); n != 10 {
		t.Errorf("the last page has %d entries, want 10", n)
	}
	b.gets(t, "audit?action=export", http.StatusOK, "Nothing of this was done.</strong>", "All of that time was looked at.")
}

func TestTheAuditSaysHowFarItLooked(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.audit = manyEntries(4100, 60)
	p.onAudit = func() { p.pass(3 * time.Second) }
	b := p.browser(t)
	page := b.gets(t, "audit?action=release", http.StatusOK, "Nothing of this was done since", "Looked back to",
		"2020-11-27 09:26:41", ">Look further</a>") // 2,000 entries
	b.gets(t, older(t, page), http.StatusOK, "Nothing of this was done since", "2020-11-27 08:53:21")
}

func TestTheAuditIsFilteredByASealedKey(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.guardLogins(t)
	for _, key := range []string{"alice", "bob"} {
		p.attempt(t, "", user(key))
		if err := p.Release(t.Context(), user(key), "ann", "ticket "+key); err != nil {
			t.Fatal(err)
		}
	}
	b := p.browser(t)
	_, page := b.search(t, "Alice")
	lacks(t, page, "ticket bob")
	found := regexp.MustCompile(`href="/console/(audit\?key=[^"]*)"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page of a key leads to no audit: %s", page)
	}
	path := found[1]
	page = b.gets(t, path, http.StatusOK, "ticket alice", "Key in zone 1", `aria-label="Show all keys"`, `name="key"`)
	lacks(t, page, "ticket bob")
	lacks(t, path, "alice")
	b.gets(t, "audit?key=x", http.StatusBadRequest)
}

func TestZoneIsPutBackAsBeforeChange(t *testing.T) {
	t.Parallel()
	p := audited(t)
	b := p.browser(t)
	page := b.gets(t, "zones/1/versions", http.StatusOK, "Put back…", `/console/zones/1/versions/7"`, `<del>5</del>`,
		`<ins>9</ins>`)
	lacks(t, page, "versions/5\"", "released")
	b.gets(t, "zones/1/versions/7", http.StatusOK, "<del>50</del>", "<ins>5</ins>", "These overrides come back", "alice",
		"Limit 7", `name="revision" value="1"`)
	form := url.Values{"revision": {"1"}, "typed": {"1"}, "reason": {"it was better"}}
	for field, wrong := range map[string]string{"revision": "2", "typed": "11", "reason": ""} {
		tried := url.Values{"revision": {"1"}, "typed": {"1"}, "reason": {"it was better"}}
		tried.Set(field, wrong)
		status := map[string]int{"revision": http.StatusPreconditionFailed}[field]
		b.posts(t, "zones/1/versions/7", tried, cmp.Or(status, http.StatusBadRequest), "autofocus")
	}
	b.posts(t, "zones/1/versions/7", form, http.StatusOK, "The zone is as it was")
	zone, err := p.Zone(t.Context(), 1)
	if err != nil || zone.Rate != 5 || zone.Counts != service.CountsFailures || !zone.ResetOnSuccess || zone.Totals {
		t.Errorf("the zone is %+v, %v", zone, err)
	}
	overrides, err := p.Overrides(t.Context(), 1, 0, 9)
	if err != nil || len(overrides) != 1 || overrides[0].Key != "alice" || overrides[0].Rate != 7 {
		t.Errorf("the overrides are %+v, %v", overrides, err)
	}
	b.gets(t, "zones/1/versions/7", http.StatusOK, "There is nothing to do")
}

func TestDeletedZoneIsRestoredAbsentOneIsNot(t *testing.T) {
	t.Parallel()
	p := audited(t)
	if err := p.DeleteZone(t.Context(), 1, service.Match{}, ""); err != nil {
		t.Fatal(err)
	}
	b := p.browser(t)
	b.gets(t, "zones/1/versions/5", http.StatusConflict)
	for path, status := range map[string]int{
		"zones/1/versions/4": 404, "zones/2/versions/9": 404, "zones/0/versions": 404,
		"zones/99999999999/versions": 404,
	} {
		if got, _ := b.get(t, path); got != status {
			t.Errorf("%s is answered with %d", path, got)
		}
	}
	b.posts(t, "zones/1/versions/9", url.Values{"revision": {"0"}, "typed": {"1"}, "reason": {"by mistake"}},
		http.StatusOK, "The zone is as it was")
	if zone, err := p.Zone(t.Context(), 1); err != nil || zone.Rate != 9 {
		t.Errorf("the zone is %+v, %v", zone, err)
	}
}

func TestReaderWithoutScopeIsShownNoAction(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	p.audit = audited(t).audit
	p.SetZone(t, service.Zone{ID: 1, Rate: 50, Window: time.Minute})
	analyst := p.person(t, "ann", access.ScopeHistory, access.ScopePeek).logIn(t)
	_, page := analyst.get(t, "zones/1")
	lacks(t, page, "Delete", "Change…", "Overrides")
	page = analyst.gets(t, "zones/1/versions", http.StatusOK, "ticket 4711")
	lacks(t, page, "Put back")
}
