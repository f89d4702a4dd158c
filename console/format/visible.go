package format

import (
	"fmt"
	"html/template"
	"strings"
	"unicode"

	"velocityd/service/fold"
)

// Visible returns text of unknown origin, as it is: in its own direction, with a mark in the place of each character
// that would not be seen or would turn the text around it (Unicode TR 36). Blanks and letters that look like others
// have marks, too (TR 39), which do not change the text that a reader copies.
func Visible(text string) template.HTML {
	const together = 16 // characters of a long text break at joints alone
	var b strings.Builder
	all, since := []rune(text), 0
	scripts := fold.Strangers(all)
	for i, r := range all {
		switch {
		case isHidden(r):
			fmt.Fprintf(&b, `<span class="hidden" title="a character that is not seen">U+%04X</span>`, r)
		case r == ' ' && (i == 0 || i == len(all)-1 || all[i-1] == ' ' || all[i+1] == ' '):
			b.WriteString(`<span class="blank" title="a blank"> </span>`)
		case scripts[i] != "":
			fmt.Fprintf(&b, `<span class="alike" title="U+%04X" data-script="%s">%c</span>`, r, scripts[i], r)
		default:
			b.WriteString(template.HTMLEscapeString(string(r)))
		}
		if since++; len(all) > together && (strings.ContainsRune(".@-_:/", r) || since == together) {
			b.WriteString("<wbr>")
			since = 0
		}
	}
	return template.HTML(`<bdi class="key">` + b.String() + "</bdi>") //nolint:gosec // everything in it is escaped
}

// isHidden reports whether a character shows nothing, or turns the text around it.
func isHidden(r rune) bool {
	return r != ' ' && !unicode.IsPrint(r) || r == '\u2800' ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
