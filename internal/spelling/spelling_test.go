package spelling

import "testing"

func TestNearestIsFirstOfLeastDifferent(t *testing.T) {
	t.Parallel()
	names := []string{"allow", "attempt", "buckets", "busy", "deny"}
	for given, want := range map[string]string{
		"dney": "", "den": "deny", "alow": "allow", "bukets": "buckets",
		"bus": "busy", "x": "", "": "",
	} {
		if got := Nearest(given, names); got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}
