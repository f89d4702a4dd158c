package fold

import (
	"slices"
	"testing"
	"unicode/utf8"
)

func TestLettersOutOfPlaceAreNamedByScript(t *testing.T) {
	t.Parallel()
	const latin, cyrillic, greek = "Latin", "Cyrillic", "Greek"
	for text, want := range map[string]map[int]string{
		"admin":                          {},
		"\u0430dmin":                     {0: cyrillic},
		"adm\u0456n@example.com":         {3: cyrillic},
		"\u0430b":                        {0: cyrillic}, // of as many letters ASCII's are the right ones
		"\u0438\u0432a\u043d":            {2: latin},
		"\u043a\u0438\u0440\u03bf":       {3: greek},
		"pa55w\u043erd":                  {5: cyrillic},
		"\u0441\u043e\u0441\u043e":       {0: cyrillic, 1: cyrillic, 2: cyrillic, 3: cyrillic},
		"\u0441\u043e\u0441\u043e@x":     {0: cyrillic, 1: cyrillic, 2: cyrillic, 3: cyrillic},
		"\u0438\u0432\u0430\u043d":       {}, // Ivan, a name of one script
		"\u0438\u0432\u0430\u043d.smith": {},
		"\u0432\u0445\u043e\u0434 \u0441 \u043d\u0435\u0433\u043e": {}, // words of one text
		"\u03b3\u03b9\u03ce\u03c1\u03b3\u03bf\u03c2":               {}, // a Greek name
		"\u6771\u4eactower\u30bf\u30ef\u30fc":                      {}, // Japanese mixes scripts
		"jos\u00e9":                                                {}, "e\u0301a": {}, "": {}, "123": {}, "\U0001f600a": {},
	} {
		all := []rune(text)
		wanted := make([]string, len(all))
		for at, script := range want {
			wanted[at] = script
		}
		if got := Strangers(all); !slices.Equal(got, wanted) {
			t.Errorf("%q has %q", text, got)
		}
	}
}

func FuzzStrangers(f *testing.F) {
	f.Add("\u0430dmin")
	f.Fuzz(func(t *testing.T, text string) {
		all := []rune(text)
		for i, script := range Strangers(all) {
			if script != "" && (all[i] < utf8.RuneSelf) && script != "Latin" {
				t.Errorf("%q: %c is said to be %s", text, all[i], script)
			}
		}
	})
}
