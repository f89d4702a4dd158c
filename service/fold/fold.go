package fold

import (
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// UsernameAI folds all differences that accent-insensitive collations of Unicode ignore: ł and l, æ and
// ae, ١ and 1, ア and あ become alike. It folds more than each collation, because it serves all of them: a
// difference that one of them ignores is folded.
func UsernameAI(key string) string {
	if !strings.ContainsFunc(key, mayFold) {
		return key
	}
	for range 4 { // one round is enough for all but a few characters
		folded := norm.NFKD.String(foldBases(key))
		folded = norm.NFC.String(Username(foldBases(folded)))
		// MySQL compares the first eight characters of U+FDFA's eighteen.
		folded = strings.ReplaceAll(folded, "صلي الله عليه وسلم", "صلي الله")
		if folded == key {
			break
		}
		key = folded
	}
	return key
}

// UsernameGeneral folds all that UsernameAI does, and the differences that older collations ignore: all
// characters beyond the basic plane; ß with s or with ss; the iota below a Greek letter with an iota or
// with nothing. So s is written once and iota never.
func UsernameGeneral(key string) string {
	key = UsernameAI(strings.Map(func(r rune) rune {
		if r > 0xFFFF {
			return unicode.ReplacementChar
		}
		return r
	}, key))
	for strings.Contains(key, "ss") {
		key = strings.ReplaceAll(key, "ss", "s")
	}
	return strings.TrimSpace(strings.ReplaceAll(key, "ι", ""))
}

// foldBases drops the marks around letters, and writes letters of one primary weight alike.
func foldBases(key string) string {
	table := foldTable()
	var b strings.Builder
	for _, r := range key {
		to, known := table[r]
		switch {
		case known:
			b.WriteString(to)
		case isAccent(r):
		case unicode.Is(unicode.Nd, r):
			b.WriteRune('0' + digit(r))
		case r >= 'ァ' && r <= 'ヶ':
			b.WriteRune(r - 'ァ' + 'ぁ')
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isAccent is true for marks around letters, which collations do not look at, and for the vowels
// that Thai, Lao and others write before their consonant and collations read after it. It
// is false for the vowel signs of India's scripts, which tell names apart: those have the
// combining class 0, and viramas 9.
func isAccent(r rune) bool {
	if unicode.Is(unicode.Logical_Order_Exception, r) {
		return true
	}
	class := norm.NFKD.PropertiesString(string(r)).CCC()
	return unicode.Is(unicode.M, r) && class != 0 && class != 9
}

// digit returns the value of a decimal digit of any script. Unicode has them in rows of ten.
func digit(r rune) rune {
	first := r
	for unicode.Is(unicode.Nd, first-1) {
		first--
	}
	return (r - first) % 10
}

// foldTable maps the characters of foldWords to their replacements.
var foldTable = sync.OnceValue(func() map[rune]string { //nolint:gochecknoglobals // made once, never changed
	words := strings.Split(foldWords, "|")
	table := make(map[rune]string, len(words))
	for _, word := range words {
		for i, r := range word {
			if i == 0 {
				table[r] = word[len(string(r)):]
			}
		}
	}
	return table
})

// isIgnorable says that a character is one that programs do not show (Unicode's
// Default_Ignorable_Code_Point, by the formula of DerivedCoreProperties.txt).
func isIgnorable(r rune) bool {
	if !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Cf, unicode.Variation_Selector) {
		return false
	}
	isNote := r >= 0xFFF9 && r <= 0xFFFB || r >= 0x13430 && r <= 0x13440 // annotations, Egyptian format controls
	return !isNote && !unicode.In(r, unicode.White_Space, unicode.Prepended_Concatenation_Mark)
}
