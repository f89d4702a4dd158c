package console_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/zonereport"
)

// ZoneReport is that of the store, or ErrBusy.
func (p *place) ZoneReport(
	ctx context.Context, zone service.Zone, query zonereport.Query,
) (zonereport.Report, error) {
	if p.busy {
		return zonereport.Report{}, fmt.Errorf("%w: other reports are being made", service.ErrBusy)
	}
	return p.Store.ZoneReport(ctx, zone, query)
}

func TestAttackIsNamedAndNumbersLinkToAttempts(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsername}})
	p.SetZone(t, service.Zone{ID: 2, Rate: 25, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	for i := range 30 {
		p.ask(t, of(1, fmt.Sprint("user-", i), 2, "203.0.113.9"))
	}
	for i := range 12 {
		p.ask(t, of(1, "victim", 2, fmt.Sprint("192.0.2.", i+1)))
	}
	b := p.browser(t)
	status, page := b.get(t, "attacks")
	if status != http.StatusOK ||
		!strings.Contains(page, "One address tried many users. One user was tried from many addresses.") {
		t.Fatalf("the page is %d, %s", status, page)
	}
	for text, want := range map[string]int{"5": 5, "11": 11} {
		path := link(t, page, text)
		if status, history := b.get(t, path); status != http.StatusOK || rows(history) != want {
			t.Errorf("%s leads to %s: %d, %d attempts", text, path, status, rows(history))
		}
	}
	for text, keys := range map[string][]string{"30": {"user-0", "user-29"}, "12": {"192.0.2.1", "192.0.2.12"}} {
		status, list := b.get(t, link(t, page, text))
		if status != http.StatusOK || !strings.Contains(words(list), text+" other keys were named in its "+text+" checks") {
			t.Errorf("%s keys at once: %d, %s", text, status, list)
		}
		for _, key := range keys {
			contains(t, list, ">"+key+"</bdi>")
		}
	}
	if !strings.Contains(page, "203.0.113.0/24") {
		t.Error("the network of the address is not shown")
	}
}

// spray is 15 users tried from one address, each twice at a rate of 1.
func (p *place) spray(t *testing.T) {
	t.Helper()
	p.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsername}})
	p.SetZone(t, service.Zone{ID: 2, Rate: 250, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	p.SetZone(t, service.Zone{ID: 3, Rate: 250, Window: time.Hour})
	for i := range 30 {
		p.ask(t, of(1, fmt.Sprint("user-", i%15), 2, "203.0.113.9"))
	}
}

func TestAttemptsOfOtherZonesHideNoAttack(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.spray(t)
	for range 70 {
		p.ask(t, of(3, "noise"))
	}
	_, page := p.browser(t).get(t, "attacks?rows=60")
	const want = "UTC: One address tried many users. No user was tried from many addresses. 15 attempts of zone 1 found " +
		"no room, of 30."
	if !strings.Contains(page, want) || !strings.Contains(page, "these are all 60 attempts of zones 1 and 2") {
		t.Errorf("the page says:\n%s", page)
	}
}

func TestPageOfPartialTimeNeverSaysNo(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.spray(t)
	for range 2 {
		p.ask(t, of(1, "late", 2, "192.0.2.1"))
	}
	_, page := p.browser(t).get(t, "attacks?rows=4")
	if regexp.MustCompile(`>No |[.:] No (address|user|key)`).MatchString(page) ||
		!strings.Contains(page, "UTC: 1 attempts of zone 1 found no room, of 2.") {
		t.Errorf("the page says:\n%s", page)
	}
	if n := strings.Count(page, "before was not looked at."); n != 3 ||
		!strings.Contains(page, "newest 4 attempts of zones 1 and 2, from ") {
		t.Errorf("%d lists say that they are of part of the time:\n%s", n, page)
	}
	if strings.Contains(page, "203.0.113.9") || !strings.Contains(page, "attacks?addresses=2&amp;rows=500000") {
		t.Errorf("the lists are of another time:\n%s", page)
	}
}

func TestABusyReportNamesNoHeader(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.spray(t)
	p.busy = true
	if _, page := p.browser(t).get(t, "attacks"); !strings.Contains(page, "There is no report now.") ||
		strings.Contains(page, "Retry-After") {
		t.Errorf("the page says:\n%s", page)
	}
}

func TestThePlaybooksThatThePageNamesExist(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("templates/attacks.html")
	if err != nil {
		t.Fatal(err)
	}
	playbooks, err := os.ReadFile("../docs/playbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`<cite>(.*?)</cite>`).FindAllStringSubmatch(string(page), -1)
	if len(named) == 0 {
		t.Error("the page names no playbook")
	}
	for _, name := range named {
		if !strings.Contains(string(playbooks), "\n## "+name[1]+"\n") {
			t.Errorf("there is no playbook %q", name[1])
		}
	}
}

func TestAttacksPageTeachesWhereNoZoneExists(t *testing.T) {
	t.Parallel()
	p := open(t)
	b := p.browser(t)
	b.gets(t, "attacks", http.StatusOK, "There is no zone yet")
	p.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
	b.gets(t, "attacks", http.StatusOK, "Sprays show where one check names a user and an address")
	b.gets(t, "attacks?users=9", http.StatusNotFound)
}
