package console_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
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

func TestNowNamesNewestLockedKeysWithTheirEnds(t *testing.T) {
	t.Parallel()
	p := open(t)
	for zone := range int64(2) {
		for i := range 4 {
			p.locking(t, zone+1, fmt.Sprint("user-", i))
		}
	}
	p.SetZone(t, service.Zone{ID: 1, Description: "login " + hostile, Rate: 1, Window: time.Hour, Lockout: time.Hour})
	b := p.browser(t)
	page := b.gets(t, "", http.StatusOK, ">8</a>", "All of them</a>", "ends <time data-until")
	lacks(t, page, "<img")
	if n := strings.Count(page, `<li><span><a href="/console/keys/`); n != 5 {
		t.Errorf("%d keys are named, want 5", n)
	}
	b.gets(t, strings.TrimPrefix(link(t, page, `<bdi class="key">user-3</bdi>`), "/"), http.StatusOK, "<h1><bdi class=\"key\">user-3")
	page = b.gets(t, "?zone=2", http.StatusOK, ">4</a>")
	lacks(t, page, "All of them")
}

func TestNowNamesAttacksUnderWay(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.spray(t)
	b := p.browser(t)
	page := b.gets(t, "", http.StatusOK, ">1</a></p>", ">203.0.113.9</bdi></a>", "tries 15 users",
		"There is no day before to compare with.", "Attempts of zones 1 and 2.")
	b.gets(t, link(t, page, "15"), http.StatusOK, "203.0.113.9") // the attempts that were stopped
	if _, quiet := b.get(t, "?zone=3"); !strings.Contains(quiet, "Show all zones") {
		t.Errorf("a zone without another one has: %s", words(quiet))
	}
}

func TestBusyReportDoesNotFailNow(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.spray(t)
	p.busy = true
	page := p.browser(t).gets(t, "", http.StatusOK, "There is no report now, so this is not known.", "The last 24 full hours")
	lacks(t, page, ">None<")
}

func TestNowIsReadableWithoutZones(t *testing.T) {
	t.Parallel()
	p := open(t)
	page := p.browser(t).gets(t, "", http.StatusOK, "There are no zones", "zones/new", "velocityd is ready")
	lacks(t, page, "Attacks under way", "locked out at this moment")
}

func TestNowSaysFirstThatChecksAreNotDecided(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
	p.unready = errors.New("the database is read-only")
	p.SetRetention(service.RetentionTask{Name: "old_txns", Error: "the disk is full"})
	page := p.browser(t).gets(t, "", http.StatusOK, "1 task fails",
		`<div class="fault">velocityd is <strong>not ready</strong>: the database is read-only, since `)
	lacks(t, page, "velocityd is ready")
}

func TestEachLivePartIsAnsweredByItself(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]bool{}
	p := newPlace(t, false, before(func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		asked[r.URL.Path] = true
		return false
	}))
	p.spray(t)
	p.locking(t, 4, "alice")
	b := p.browser(t)
	for part, other := range map[string]string{"locked": "/v1/zones/1/report", "attacks": "/v1/zones/4/locked"} {
		mu.Lock()
		clear(asked)
		mu.Unlock()
		b.header = http.Header{"X-Live": {part}}
		b.gets(t, "", http.StatusOK, `id="`+part+`"`)
		mu.Lock()
		if asked[other] || asked["/v1/zones/3/totals"] || len(asked) < 3 {
			t.Errorf("the part %s asks for %v", part, asked)
		}
		mu.Unlock()
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
