package settings

import (
	"strings"
	"testing"
)

// FuzzDecode holds the decoder to its promise: no panic, an error with the path, or settings with names and
// values that are not empty.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		"", "listen: x", "a: [b, c]\n# d\ne: 'f'", "a: &b c\nd: *b", "<<: {a: b}", "a: |\n b", "- a", "a: b\n---\nc: d",
		"? a\n: b", "%YAML 9\n", "a: !!binary eA==", "\xff\xfe", "a: \x00",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := decode("the file", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "the file ") {
				t.Errorf("the error does not begin with the path: %v", err)
			}
			return
		}
		names := map[string]bool{}
		for _, s := range file.settings {
			if s.name == "" || strings.TrimSpace(s.text) == "" || s.line < 1 || names[s.name] {
				t.Errorf("got %+v", s)
			}
			names[s.name] = true
		}
	})
}
