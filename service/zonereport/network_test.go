package zonereport

import (
	"testing"

	"velocityd/service"
)

func TestNetworksAreThoseOfTheFileOrPrefixes(t *testing.T) {
	t.Parallel()
	stopped := func(key string, n int64) KeyTotals {
		return KeyTotals{Key: key, Totals: service.Totals{WouldBlock: n}}
	}
	report := Report{
		Origins: map[string]service.Origin{"198.51.100.1": {Country: "DE", ASN: 64500, Organization: "Example"}},
	}
	got := report.Networks([]KeyTotals{
		stopped("192.0.2.1", 3), stopped("192.0.2.200", 4), stopped("2001:db8:1:2::/64", 2), stopped("2001:db8:1:3::/64", 2),
		stopped("198.51.100.1", 1), stopped("10.0.0.0/8", 1), stopped("a pseudonym", 1),
	})
	want := []struct {
		name, country string
		addresses     int
		stopped       int64
	}{
		{"192.0.2.0/24", "", 2, 7},
		{"2001:db8:1::/48", "", 2, 4},
		{"10.0.0.0/8", "", 1, 1},
		{"AS64500 Example", "DE", 1, 1},
		{"a pseudonym", "", 1, 1},
	}
	if len(got) != len(want) {
		t.Fatalf("the networks are %+v", got)
	}
	for i := range want {
		if n := got[i]; n.Name != want[i].name || n.Country != want[i].country || len(n.Keys) != want[i].addresses ||
			n.Stopped != want[i].stopped {
			t.Errorf("network %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}
