package console_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"velocityd/docs"
	"velocityd/service"
)

func TestEachPlaybookIsAPageWithoutDeadLinks(t *testing.T) {
	t.Parallel()
	b := open(t).browser(t)
	sections := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(docs.Playbooks, -1)
	if len(sections) < 6 {
		t.Fatalf("the playbooks are %q", sections)
	}
	index := b.gets(t, "playbooks", http.StatusOK, "<h1>Playbooks</h1>", "<table>", "velocityd report --zone 1")
	pages := index
	for _, name := range sections {
		pages += b.gets(t, link(t, index, strings.ReplaceAll(name[1], "'", "(?:'|&#39;)")), http.StatusOK, "It worked</strong>")
	}
	lacks(t, pages, ".md", "raw HTML", "](", "| it looks like")
	for _, to := range regexp.MustCompile(`href="/console/(playbooks[^"]*)"`).FindAllStringSubmatch(pages, -1) {
		b.gets(t, to[1], http.StatusOK)
	}
	b.gets(t, "playbooks/none", http.StatusNotFound)
}

func TestReadersOfAnyScopeSeePlaybooks(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	b := p.person(t, "nils")
	if status, page := p.browser(t).get(t, "playbooks"); !strings.Contains(page, "<h1>Log in</h1>") {
		t.Errorf("without a log-in it is %d, %s", status, page)
	}
	b.logIn(t).gets(t, "playbooks/spraying", http.StatusOK, "<h1>Spraying</h1>")
}

func TestThePlaybooksThatPagesNameExist(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("templates/attacks.html")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`template "playbook" "(.*?)"`).FindAllStringSubmatch(string(page), -1)
	if len(named) == 0 {
		t.Error("the page names no playbook")
	}
	for _, name := range named {
		if !strings.Contains(docs.Playbooks, "\n## "+name[1]+"\n") {
			t.Errorf("there is no playbook %q", name[1])
		}
	}
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: 1e9})
	b := p.browser(t)
	_, attacks := b.get(t, "attacks")
	b.gets(t, link(t, attacks, "Stuffing|A customer is locked out"), http.StatusOK)
}
