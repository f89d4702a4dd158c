package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

// hostile is a name that an attacker has typed.
const hostile = "<img src=x onerror=alert(1)>\u202e"

// contains fails the test unless a page has all of some texts.
func contains(t *testing.T, page string, wanted ...string) {
	t.Helper()
	for _, text := range wanted {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q:\n%s", text, page)
		}
	}
}

// lacks fails the test if a page has any of some texts.
func lacks(t *testing.T, page string, unwanted ...string) {
	t.Helper()
	for _, text := range unwanted {
		if strings.Contains(page, text) {
			t.Errorf("the page has %q:\n%s", text, page)
		}
	}
}

func TestZonesPageTellsStopsOfEachZone(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Description: "login " + hostile, Rate: 1, Window: time.Hour})
	byMinute := service.Calendar{Period: service.PeriodMinute}
	p.SetZone(t, service.Zone{ID: 2, Rate: 100_000, Window: time.Minute, Mode: service.ModeShadow, Calendar: byMinute})
	for range 4 {
		p.ask(t, of(1, "alice"))
	}
	page := p.browser(t).gets(t, "zones", http.StatusOK, "1 attempt in 1 h", "75 %", "100\u202f000 attempts a minute",
		"Shadow", "&lt;img", "U+202E", `href="/console/zones/new"`)
	lacks(t, page, "<img")
}

func TestZoneIsNotBlamedForAnotherZonesBlock(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
	p.SetZone(t, service.Zone{ID: 2, Rate: 1000, Window: time.Hour})
	for range 4 {
		p.ask(t, of(2, "alice", 1, "alice"))
	}
	b := p.browser(t)
	b.gets(t, "zones", http.StatusOK, ">75", ">0.0", "Attempts since "+p.now().Add(-23*time.Hour).UTC().Format("15")+
		":00 UTC")
	b.gets(t, "zones/2", http.StatusOK, "Stopped by this zone</dt><dd>0 · 0.0",
		"Blocked by any zone of the check</dt><dd>3")
}

func TestZonePageExplainsTheZoneInWords(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{
		ID: 1, Description: "login per user", Rate: 5, Window: time.Minute, Counts: service.CountsFailures,
		Lockout: 15 * time.Minute, Keys: service.KeyRule{Kind: service.KeyUsername}, ReserveTTL: 5 * time.Second,
	})
	p.ask(t, of(1, "alice"))
	p.browser(t).gets(t, "zones/1", http.StatusOK, "A user may fail 5 times in 1 min.", "lockout of 15 min",
		"2 times as long, up to 1 d", "<code>reserve_ttl</code> is short for a person")
}

func TestNoZonesIsToldWithTheNextStep(t *testing.T) {
	t.Parallel()
	open(t).browser(t).gets(t, "zones", http.StatusOK, "There are no zones", "velocityd zone set 1")
}

func TestZoneIsMadeChangedAndDeletedByForms(t *testing.T) {
	t.Parallel()
	p := open(t)
	b := p.browser(t)
	b.posts(t, "zones/new", url.Values{"id": {"7"}, "rate": {"5"}, "window": {"60"}, "do": {"look"}}, http.StatusOK,
		"There is nothing odd")
	if _, err := p.Zone(t.Context(), 7); err == nil {
		t.Error("a look has made the zone")
	}
	b.posts(t, "zones/new", url.Values{
		"id": {"7"}, "rate": {"5"}, "window": {"60"}, "do": {"save"},
		"reason": {"ticket 4711"},
	}, http.StatusOK, "The zone was made")
	b.posts(t, "zones/7/edit", url.Values{"revision": {"1"}, "rate": {"9"}, "lockout": {"30"}, "do": {"look"}},
		http.StatusOK, "<del>5</del>", "<ins>9</ins>", "<code>lockout</code> is shorter than the window")
	b.posts(t, "zones/7/edit", url.Values{"revision": {"1"}, "rate": {"9"}, "do": {"save"}, "reason": {""}}, http.StatusBadRequest,
		`id="wrong-reason">Must not be empty`, `value="9"`)
	b.posts(t, "zones/7/edit", url.Values{"revision": {"1"}, "rate": {"9"}, "do": {"shadow"}, "reason": {"ticket 4711"}},
		http.StatusOK, "The zone was changed")
	if zone, err := p.Zone(t.Context(), 7); err != nil || zone.Rate != 9 || zone.Mode != service.ModeShadow ||
		zone.Window != time.Minute {
		t.Errorf("the zone is %+v, %v", zone, err)
	}
	b.posts(t, "zones/7/delete", url.Values{"revision": {"2"}, "typed": {"70"}}, http.StatusBadRequest,
		`id="wrong-typed">Is not the number of the zone.`)
	b.posts(t, "zones/7/delete", url.Values{"revision": {"2"}, "typed": {"7"}, "reason": {"ticket 4712"}}, http.StatusOK,
		"The zone was deleted")
	if _, err := p.Zone(t.Context(), 7); err == nil {
		t.Error("the zone is still there")
	}
	audits := p.Audits()
	if last := audits[len(audits)-1]; len(audits) != 3 || last.Reason != "ticket 4712" ||
		audits[0].Reason != "ticket 4711" {
		t.Errorf("the audit has %+v", audits)
	}
}

func TestFormDoesNotOverwriteAnothersChange(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
	stored, err := p.PutZone(t.Context(), service.Zone{ID: 1, Rate: 50, Window: time.Minute, Lockout: time.Hour},
		service.Match{}, "dave")
	if err != nil {
		t.Fatal(err)
	}
	b := p.browser(t)
	mine := url.Values{
		"revision": {fmt.Sprint(stored.Revision - 1)}, "rate": {"8"}, "lockout": {"0"}, "do": {"save"},
		"reason": {"ticket 4711"},
	}
	status, page := b.post(t, "zones/1/edit", mine)
	if status != http.StatusPreconditionFailed {
		t.Errorf("the status is %d", status)
	}
	contains(t, page, "This zone was changed meanwhile", "<td>50</td><td>8</td>", "<td>1 h</td><td>never</td>",
		fmt.Sprintf(`name="revision" value="%d"`, stored.Revision))
	if zone, _ := p.Zone(t.Context(), 1); zone.Rate != 50 {
		t.Errorf("the rate is %d", zone.Rate)
	}
}

func TestWrongFormNamesItsFieldAndKeepsOthers(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
	for field, text := range map[string]string{
		"rate": "many", "window": "0", "lockout_factor": "1.234", "mode": "on",
		"lockout": "99999999999", "ipv4_prefix": "33",
	} {
		form := url.Values{"revision": {"1"}, "description": {"kept"}, "do": {"save"}, "reason": {"ticket 4711"}}
		form.Set(field, text)
		p.browser(t).posts(t, "zones/1/edit", form, http.StatusBadRequest,
			`aria-invalid="true" aria-describedby="wrong-`+field+`" autofocus`, `id="wrong-`+field+`">Must`,
			`value="kept"`)
	}
}

func TestRateOfZeroIsConfirmedBeforeSaving(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
	b := p.browser(t)
	form := url.Values{
		"revision": {"1"}, "rate": {"0"}, "description": {"kept"}, "do": {"save"},
		"reason": {"ticket 4711"},
	}
	b.posts(t, "zones/1/edit", form, http.StatusOK, "Nothing was saved yet", "0 lets nobody pass", "Save it all the same",
		`value="kept"`, `value="ticket 4711"`)
	if zone, _ := p.Zone(t.Context(), 1); zone.Rate != 5 {
		t.Errorf("the rate is %d", zone.Rate)
	}
	form.Set("do", "anyway")
	b.posts(t, "zones/1/edit", form, http.StatusOK, "The zone was changed")
}
