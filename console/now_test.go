package console_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/access"
)

func TestNowPageIsLimitedByTheReadersScopes(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	p.locking(t, 1, "alice")
	everybodys, health, day := `id="locked-head"`, "The work in the background is fine.", "The last 24 full hours"
	persons := map[*browser][]string{
		p.person(t, "helpdesk", access.ScopePeek): {everybodys}, p.person(t, "analyst", access.ScopeHistory): {health, day},
		p.person(t, "admin", access.ScopeAdmin): {everybodys, health, day},
	}
	for b, want := range persons {
		status, page := b.logIn(t).get(t, "")
		shown := 0
		for _, part := range []string{everybodys, health, day} {
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
	b.header = http.Header{"X-Live": {"locked"}}
	if status, page := b.get(t, ""); status != http.StatusOK || !strings.Contains(page, `id="locked"`) ||
		strings.Contains(page, "The last 24 full hours") {
		t.Errorf("a live part is answered with %d, %s", status, page)
	}
}
