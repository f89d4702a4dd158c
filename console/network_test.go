package console

import (
	"testing"

	"velocityd/service"
	"velocityd/service/zonereport"
)

func TestNetworksAreThoseOfTheFileOrPrefixes(t *testing.T) {
	t.Parallel()
	stopped := func(key string, n int64) zonereport.KeyTotals {
		return zonereport.KeyTotals{Key: key, Totals: service.Totals{WouldBlock: n}}
	}
	got := networksOf(zonereport.Report{
		Stopped: []zonereport.KeyTotals{
			stopped("192.0.2.1", 3), stopped("192.0.2.200", 4), stopped("2001:db8:1:2::/64", 2), stopped("2001:db8:1:3::/64", 2),
			stopped("198.51.100.1", 1), stopped("10.0.0.0/8", 1), stopped("a pseudonym", 1),
		},
		Origins: map[string]service.Origin{"198.51.100.1": {Country: "DE", ASN: 64500, Organization: "Example"}},
	})
	want := []network{
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
		if got[i] != want[i] {
			t.Errorf("network %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}
