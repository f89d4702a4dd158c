package format

import (
	"strings"
	"testing"
	"time"
	"unicode"
)

func TestHostileTextIsShownAndDoesNothing(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"alice":                  "alice",
		`<img onerror=alert(1)>`: "&lt;img onerror=alert(1)&gt;",
		"a\u202eb":               `a<span class="hidden" title="a character that is not seen">U+202E</span>b`,
		"a\u200bb":               `a<span class="hidden" title="a character that is not seen">U+200B</span>b`,
		"a\x00":                  `a<span class="hidden" title="a character that is not seen">U+0000</span>`,
		"\u3164":                 `<span class="hidden" title="a character that is not seen">U+3164</span>`,
		"\u00a0x":                `<span class="hidden" title="a character that is not seen">U+00A0</span>x`,
	} {
		if got := string(Visible(text)); got != `<bdi class="key">`+want+`</bdi>` {
			t.Errorf("%q is shown as %s", text, got)
		}
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("<script>\u202e")
	f.Fuzz(func(t *testing.T, text string) {
		shown := string(Visible(text))
		if strings.ContainsFunc(
			shown, func(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) || unicode.IsControl(r) }) {
			t.Errorf("%q is shown as %q", text, shown)
		}
		inner := strings.TrimSuffix(strings.TrimPrefix(shown, `<bdi class="key">`), "</bdi>")
		inner = strings.ReplaceAll(
			strings.ReplaceAll(inner, `<span class="hidden" title="a character that is not seen">`, ""), "</span>", "")
		if strings.ContainsAny(inner, "<>\"'") {
			t.Errorf("%q has markup: %s", text, inner)
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
