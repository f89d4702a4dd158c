package fold

import (
	"strings"
	"unicode"
)

// lookAlikes are letters of other scripts that look like one of ASCII.
const lookAlikes = "асеорхуіјѕһԁԛԝАВЕКМНОРСТХУІЈЅ" + "ονρΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"

// Strangers returns the names of the scripts of letters that look like those of another one: those in a word that has
// more letters of the other, as the first of "аdmin", and those of a text that has none but look-alikes, as "сосо".
func Strangers(text []rune) []string {
	names, isPlain := make([]string, len(text)), map[string]bool{}
	for i, r := range text {
		names[i] = scriptOf(r)
		isPlain[names[i]] = isPlain[names[i]] || !strings.ContainsRune(lookAlikes, r)
	}
	for begin, end := 0, 0; begin < len(text); begin, end = end+1, end+1 {
		counts, most := map[string]int{"": -len(text)}, "Latin"
		for ; end < len(text) && unicode.In(text[end], unicode.L, unicode.M, unicode.N); end++ {
			counts[names[end]]++
		}
		for _, name := range names[begin:end] {
			if counts[name] > counts[most] {
				most = name
			}
		}
		for i := begin; i < end; i++ {
			if names[i] == most && isPlain[most] {
				names[i] = ""
			}
		}
	}
	return names
}

// scriptOf returns the name of the script of a letter, and "" of a character that words of several scripts have.
func scriptOf(r rune) string {
	if !unicode.IsLetter(r) || unicode.In(r, unicode.Common, unicode.Inherited, unicode.Han, unicode.Hiragana,
		unicode.Katakana, unicode.Hangul, unicode.Bopomofo) {
		return ""
	}
	if unicode.Is(unicode.Latin, r) {
		return "Latin"
	}
	for name, table := range unicode.Scripts {
		if unicode.Is(table, r) {
			return name
		}
	}
	return ""
}
