package console_test

import (
	"html"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// number reads a number as pages have it, with words behind it.
func number(text string) int {
	n, _ := strconv.Atoi(regexp.MustCompile(`[^\d]`).ReplaceAllString(strings.SplitN(text, " ", 2)[0], ""))
	return n
}

// wholeNumber returns the number of the first sentence that opens a list with a filter, and the time of that list.
func wholeNumber(t *testing.T, page, filter string) (text, since, until string) {
	t.Helper()
	_, lead, _ := strings.Cut(page, `<p class="lead">`)
	lead, _, _ = strings.Cut(lead, "</p>")
	for _, found := range regexp.MustCompile(`href="/console/history\?([^"]*)">([^<]*)<`).FindAllStringSubmatch(lead, -1) {
		if query := html.UnescapeString(found[1]); strings.HasPrefix(query, filter+"&") {
			values, err := url.ParseQuery(query)
			if err != nil {
				t.Fatal(err)
			}
			return found[2], values.Get("since"), values.Get("until")
		}
	}
	t.Fatalf("the sentence has no number with %s: %s", filter, lead)
	return "", "", ""
}

// openNumbers opens the list behind each number of a page, which must count as many, and be at least so many.
func (b *browser) openNumbers(t *testing.T, page string, least int) {
	t.Helper()
	opened := map[string]bool{}
	for _, found := range regexp.MustCompile(`href="/console/((?:history\?|keys/[^"/]*/beside)[^"]*)"[^>]*>([\d\x{202f}]+[^<]*)<`).
		FindAllStringSubmatch(page, -1) {
		path, want := html.UnescapeString(found[1]), number(found[2])
		if opened[path] || want == 0 {
			continue
		}
		opened[path] = true
		if got := b.listed(t, path); got != want {
			t.Errorf("%q opens %s, with %d", found[2], path, got)
		}
	}
	if len(opened) < least {
		t.Errorf("%d numbers were opened, want %d", len(opened), least)
	}
}

// listed returns how many attempts a list has, on all of its pages, or how many keys.
func (b *browser) listed(t *testing.T, path string) (n int) {
	t.Helper()
	for older := regexp.MustCompile(`href="/console/([^"]*)" data-swap="#found">(?:Older|Look further)<`); path != ""; {
		_, page := b.get(t, path)
		if keys := regexp.MustCompile(`(\d+|One) other keys? w`).FindStringSubmatch(page); keys != nil {
			return max(1, number(keys[1]))
		}
		n += rows(page)
		path = ""
		if next := older.FindStringSubmatch(page); next != nil {
			path = html.UnescapeString(next[1])
		}
	}
	return n
}

// formIn returns the path and the values of the first form of a text.
func formIn(t *testing.T, text string) (path string, values url.Values) {
	t.Helper()
	action := regexp.MustCompile(`<form[^>]*action="/console/([^"]*)"`).FindStringSubmatch(text)
	if action == nil {
		t.Fatalf("there is no form in %s", text)
	}
	values = url.Values{}
	text, _, _ = strings.Cut(text, "</form>")
	for _, field := range regexp.MustCompile(`name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		values.Set(field[1], html.UnescapeString(field[2]))
	}
	if choice := regexp.MustCompile(`name="(\w+)"><option value="([^"]*)"`).FindStringSubmatch(text); choice != nil {
		values.Set(choice[1], choice[2])
	}
	return action[1], values
}
