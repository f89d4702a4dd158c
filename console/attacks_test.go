package console_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/zonereport"
)

// ZoneReport is that of the store, or ErrBusy. It is made when all readers that the test waits for have asked.
func (p *place) ZoneReport(
	ctx context.Context, zone service.Zone, query zonereport.Query,
) (zonereport.Report, error) {
	if p.busy {
		return zonereport.Report{}, fmt.Errorf("%w: other reports are being made", service.ErrBusy)
	}
	if p.reports != nil {
		p.reports <- struct{}{}
		<-p.reports
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
	page := b.gets(t, "attacks", http.StatusOK, "No account was entered after guesses. 2 attacks go on.",
		">30 users at once</a>", ">12 addresses at once</a>", "203.0.113.0/24")
	b.openNumbers(t, page, 10)
	for text, keys := range map[string][]string{
		"30 users at once": {"user-0", "user-29"}, "12 addresses at once": {"192.0.2.1", "192.0.2.12"},
	} {
		_, list := b.get(t, link(t, page, text))
		for _, key := range keys {
			contains(t, list, ">"+key+"</bdi>")
		}
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

func TestPageOfPartialTimeNeverSaysNo(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.spray(t)
	for range 2 {
		p.ask(t, of(1, "late", 2, "192.0.2.1"))
	}
	page := p.browser(t).gets(t, "attacks?rows=4", http.StatusOK, "In the times that were read, no account was entered",
		"No attack in the times that were read.", "What was not read may have one.", "Not read: ",
		"4 recorded attempts of zones 1 and 2 were read", "attacks?addresses=2&amp;rows=500000", ">16</a> of <a")
	for _, found := range regexp.MustCompile(`>No [^<]*|[.:] No [^<]*`).FindAllString(page, -1) {
		if !strings.Contains(found, "in the times that were read") {
			t.Errorf("the page says %q", found)
		}
	}
	lacks(t, page, "203.0.113.9", "No attack goes on", "No key was stopped.", "All of it was read")
}

// TestSecondReaderWaitsForTheReport has more readers than reports may be made at once, of one caller and of all.
func TestSecondReaderWaitsForTheReport(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.spray(t)
	p.reports = make(chan struct{})
	b := p.browser(t)
	pages := make(chan string)
	const readers = 3
	for range readers {
		go func() {
			_, page := b.get(t, "attacks")
			pages <- page
		}()
	}
	for range readers {
		<-p.reports
		select {
		case <-p.reports:
			t.Error("one caller has two reports at once")
		default:
		}
		p.reports <- struct{}{}
		if page := <-pages; !strings.Contains(page, "tries <a") {
			t.Errorf("a reader gets no report: %s", words(page))
		}
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

func TestAttacksPageTeachesWhereNoZoneExists(t *testing.T) {
	t.Parallel()
	p := open(t)
	b := p.browser(t)
	b.gets(t, "attacks", http.StatusOK, "There is no zone yet")
	p.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
	b.gets(t, "attacks", http.StatusOK, "Attacks are seen where one check names a user and an address")
	b.gets(t, "attacks?users=9", http.StatusNotFound)
}
