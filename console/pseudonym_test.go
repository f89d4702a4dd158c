package console_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

func TestPseudonymIsLabelledWhereverKeyIsDrawn(t *testing.T) {
	t.Parallel()
	pseudonym := "hmac:" + "k1:" + strings.Repeat("a", 43)
	if !service.IsPseudonym(pseudonym) {
		t.Fatalf("%s is no pseudonym", pseudonym)
	}
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Lockout: time.Hour})
	bucket := service.Bucket{ZoneID: 1, Key: pseudonym}
	p.attempt(t, "", bucket)
	p.attempt(t, "", bucket)
	if _, err := p.AddOverride(t.Context(),
		service.Override{ZoneID: 1, Key: pseudonym, Action: service.OverrideDeny, Reason: "r"}, "carol"); err != nil {
		t.Fatal(err)
	}
	b := p.browser(t)
	_, history := b.get(t, "history")
	pages := map[string]string{"history": history}
	for _, path := range []string{
		"locked", "attacks", "overrides", "overrides/1/1", "txns/1",
		regexp.MustCompile(`keys/[\w-]+`).FindString(history),
	} {
		_, pages[path] = b.get(t, path)
	}
	for path, page := range pages {
		if !strings.Contains(page, pseudonym+`</bdi> <span class="chip note">pseudonym</span>`) {
			t.Errorf("%s does not say that the key is a pseudonym: %s", path, words(page))
		}
	}
}

func TestNoTemplateDrawsAKeyByItself(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("templates/*.html")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := regexp.MustCompile(`{{visible [$.\w]*[Kk]ey}}`).Find(text); found != nil {
			t.Errorf("%s has %s in place of {{key …}}", file, found)
		}
	}
}
