package console_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/access"
)

func TestThePageOfThisMomentShowsWhatTheScopesAllow(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	p.locking(t, 1, "alice")
	own, host, everybodys, day := ">2.0 <small>a second", "app-1&lt;b&gt;", "Keys locked out", "The last 24 hours"
	persons := map[*browser][]string{
		p.person(t, "operator", access.ScopeMetrics): {own, host}, p.person(t, "helpdesk", access.ScopePeek): {everybodys},
		p.person(t, "analyst", access.ScopeHistory): {day}, p.person(t, "admin", access.ScopeAdmin): {own, host, everybodys, day},
	}
	for b, want := range persons {
		status, page := b.logIn(t).get(t, "")
		shown := 0
		for _, part := range []string{own, host, everybodys, day} {
			if strings.Contains(page, part) {
				shown++
			}
		}
		for _, part := range want {
			if status != http.StatusOK || !strings.Contains(page, part) || shown != len(want) {
				t.Errorf("%d parts are shown, want %q: %d, %s", shown, part, status, page)
			}
		}
	}
}

func TestALivePartIsAnsweredWithoutTheDay(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
	b := p.browser(t)
	b.header = http.Header{"X-Live": {"1"}}
	if status, page := b.get(t, ""); status != http.StatusOK || !strings.Contains(page, `id="tiles"`) || strings.Contains(page, "The last 24 hours") {
		t.Errorf("a live part is answered with %d, %s", status, page)
	}
}

func TestAReaderWhoIsBoundToZonesSeesNowWithoutTheNumbersOfAll(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	b := p.browser(t)
	b.token = p.credentials.AddToken(access.Caller{Name: "ann", Scopes: []access.Scope{access.ScopeAdmin}, Zones: []int64{1}}).Reveal()
	if status, page := b.logIn(t).get(t, ""); status != http.StatusOK || strings.Contains(page, "This instance") {
		t.Errorf("%d, %s", status, page)
	}
}
