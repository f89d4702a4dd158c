// Package fold brings user names into one form for all spellings that Unicode, or the collations of engines, treat as
// equal. It must not know zones and buckets.
package fold

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Username folds case between two passes of NFKC, until nothing
// changes: folding may undo a composition and NFKC may bring upper case back.
// Most names have nothing to fold.
func Username(key string) string {
	if !strings.ContainsFunc(key, mayFold) {
		return key
	}
	for range 4 { // one round is enough for all but a few characters
		folded := strings.Map(foldRune, cases.Fold().String(norm.NFKC.String(key)))
		folded = strings.TrimSpace(norm.NFKC.String(folded))
		if folded == key {
			break
		}
		key = folded
	}
	return key
}

// mayFold is false for the visible characters of ASCII but for capital letters.
func mayFold(r rune) bool { return r <= ' ' || r >= unicode.MaxASCII || 'A' <= r && r <= 'Z' }

// foldRune drops characters that programs do not show, and folds Cherokee, the one script that Unicode
// folds to upper case and cases.Fold leaves alone.
func foldRune(r rune) rune {
	switch {
	case isIgnorable(r):
		return -1
	case unicode.Is(unicode.Cherokee, r):
		return unicode.ToUpper(r)
	}
	return r
}
