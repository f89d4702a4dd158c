package spelling

import "testing"

func TestDistanceCountsChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "", 2}, {"listen", "lisen", 1}, {"kitten", "sitting", 3}, {"queue", "queue", 0}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestNearestIsTheFirstOfThoseThatDifferLeast(t *testing.T) {
	t.Parallel()
	names := []string{"allow", "attempt", "buckets", "busy", "deny"}
	for given, want := range map[string]string{"dney": "", "den": "deny", "alow": "allow", "bukets": "buckets", "bus": "busy", "x": "", "": ""} {
		if got := Nearest(given, names); got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}
