package format

import (
	"html"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	hidden = `<span class="hidden" title="a character that is not seen">`
	blank  = `<span class="blank" title="a blank"> </span>`
)

func TestHostileTextIsShownAndDoesNothing(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"alice":                        "alice",
		`<i onclick=a(1)>`:             "&lt;i onclick=a(1)&gt;",
		"a\u202eb":                     "a" + hidden + "U+202E</span>b",
		"a\u200bb":                     "a" + hidden + "U+200B</span>b",
		"a\x00":                        "a" + hidden + "U+0000</span>",
		"\u3164":                       hidden + "U+3164</span>",
		"\u00a0x":                      hidden + "U+00A0</span>x",
		"a b":                          "a b",
		"a  b":                         "a" + blank + blank + "b",
		" admin ":                      blank + "admin" + blank,
		"\u0430dmin":                   `<span class="alike" title="U+0430" data-script="Cyrillic">а</span>dmin`,
		"203.0.113.250/32":             "203.0.113.250/32",
		"carol.smith@mail.example.com": "carol.<wbr>smith@<wbr>mail.<wbr>example.<wbr>com",
		strings.Repeat("a", 36):        strings.Repeat("a", 16) + "<wbr>" + strings.Repeat("a", 16) + "<wbr>aaaa",
	} {
		if got := string(Visible(text)); got != `<bdi class="key">`+want+`</bdi>` {
			t.Errorf("%q is shown as %s", text, got)
		}
	}
}

func TestPlainTextAndJSONShowHiddenCharactersByNumber(t *testing.T) {
	t.Parallel()
	if got := Plain("a\u202eb c"); got != "a[U+202E]b c" {
		t.Errorf("the text is %q", got)
	}
	const text = "{\n \"key\": \"a\u202eb\U000e0001\"}"
	if got := Escaped(text); got != "{\n \"key\": \"a\\u202eb\\udb40\\udc01\"}" {
		t.Errorf("the JSON is %s", got)
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("<script>\u202e")
	f.Add(" \u0430dmin  x")
	markup := regexp.MustCompile(`<wbr>|<span class="(hidden|blank|alike)" title="[\w+ ]+"( data-script="\w+")?>|</span>`)
	marked := regexp.MustCompile(`<span class="hidden"[^>]*>U\+[0-9A-F]+</span>`)
	f.Fuzz(func(t *testing.T, text string) {
		shown := string(Visible(text))
		if strings.ContainsFunc(
			shown, func(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) || unicode.IsControl(r) }) {
			t.Errorf("%q is shown as %q", text, shown)
		}
		inner := strings.TrimSuffix(strings.TrimPrefix(shown, `<bdi class="key">`), "</bdi>")
		if plain := markup.ReplaceAllString(inner, ""); strings.ContainsAny(plain, "<>\"'") {
			t.Errorf("%q has markup: %s", text, plain)
		}
		seen := strings.Map(func(r rune) rune {
			if isHidden(r) {
				return -1
			}
			return r
		}, text)
		copied := html.UnescapeString(markup.ReplaceAllString(marked.ReplaceAllString(inner, ""), ""))
		if utf8.ValidString(text) && copied != seen {
			t.Errorf("%q is copied as %q", text, copied)
		}
	})
}

func TestNumbersAndLengthsReadEasily(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1\u202f000", -1234567: "-1\u202f234\u202f567"} {
		if got := Num(n); got != want {
			t.Errorf("%d is %q", n, got)
		}
	}
	for d, want := range map[time.Duration]string{
		time.Minute: "1 min", 90 * time.Second: "90 s", time.Hour: "1 h",
		48 * time.Hour: "2 d", 1500 * time.Millisecond: "1.5 s",
	} {
		if got := Length(d); got != want {
			t.Errorf("%s is %q", d, got)
		}
	}
}
