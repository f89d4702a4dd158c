package handlers

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/audit"
)

func TestAuditIsPagedForZonesOfCaller(t *testing.T) {
	t.Parallel()
	g := guard(t)
	for _, by := range []string{"ann via helpdesk", "bob"} {
		for id := range int64(2) {
			if err := g.Release(t.Context(), service.Bucket{ZoneID: id + 1, Key: "a"}, by, "called us"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := g.NoteExport(t.Context(), service.Export{Format: "csv"}, "bob"); err != nil {
		t.Fatal(err)
	}
	all, bound := g.as("all", nil, access.ScopeHistory), g.as("bound", []int64{2}, access.ScopeHistory)
	list := func(headers []string, query string) (ids string, next uint64) {
		t.Helper()
		got := g.ask(t, http.MethodGet, "/v1/audit"+query, "", headers...)
		page := read[audit.Page](t, got)
		for _, e := range page.Entries {
			ids += fmt.Sprint(e.ID, e.Subject, e.ZoneID, " ")
		}
		return ids, page.Next
	}
	for query, want := range map[string]string{
		"?subject=bucket&limit=2": "4bucket2 3bucket1 ", "?subject=bucket&before=3": "2bucket2 1bucket1 ",
		"?by=ann":             "2bucket2 1bucket1 ",
		"?by=helpdesk&zone=1": "1bucket1 ", "?action=export&action=erase": "5history0 ", "?until=2000-01-01T00:00:00Z": "",
		"?since=2100-01-01T00:00:00Z": "", "?zone=1&key=a": "3bucket1 1bucket1 ", "?zone=1&key=b": "",
	} {
		if got, _ := list(all, query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if _, next := list(all, "?subject=bucket&limit=2"); next != 3 {
		t.Errorf("the page goes on at %d, want 3", next)
	}
	if got, _ := list(bound, ""); got != "4bucket2 2bucket2 " {
		t.Errorf("to a caller of zone 2: %q", got)
	}
	g.ask(t, http.MethodGet, "/v1/audit?zone=1", "", bound...).refused(t, http.StatusForbidden, "missing_scope")
	for _, query := range []string{
		"?subject=x", "?action=", "?by=", "?by=a&by=b", "?after=1", "?limit=0", "?order=asc",
		"?since=now", "?before=0", "?key=a", "?zone=1&zone=2&key=a", "?zone=%zz",
	} {
		g.ask(t, http.MethodGet, "/v1/audit"+query, "", all...).refused(t, http.StatusBadRequest, "invalid_request")
	}
}

func TestExportIsShownWithoutItsAttempt(t *testing.T) {
	t.Parallel()
	for filter, want := range map[string]string{
		`{"format":"csv","attempt_id":"secret"}`: `{"format":"csv"}`, `{}`: `{}`,
		``: ``, `[1]`: ``,
	} {
		if got := string(withoutAttempt([]byte(filter))); got != want {
			t.Errorf("%s: %s, want %s", filter, got, want)
		}
	}
}

// FuzzDecodeAudit holds that a query is refused in words for callers, or is one that every store takes.
func FuzzDecodeAudit(f *testing.F) {
	for _, seed := range []string{
		"", "zone=1&zone=2&subject=zone&subject=token&action=update&by=ann", "subject=", "action=x", "by=", "by=a&by=a",
		"before=0",
		"since=2026-08-24T09:15:02Z&until=2026-08-25T09:15:02%2B02:00", "limit=1001", "key=a&zone=1", "order=desc",
		"before=18446744073709551615",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		q, err := decodeAudit(query)
		if err != nil {
			mustBeFitForCallers(t, err)
			return
		}
		values, err := url.ParseQuery(query)
		if err != nil || q.Validate() != nil || strings.Contains(query, "after=") && values.Has("after") ||
			len(q.Zones) > access.MaxBoundZones {
			t.Fatalf("accepted %q as %+v", query, q)
		}
	})
}
