package firewall_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/firewall"
	"velocityd/service/lockout"
)

// TestFirewallListHoldsExactlyBlockedAddresses compares the list with the overrides in force, address by
// address, for random overrides and lockouts of a small network.
func TestFirewallListHoldsExactlyBlockedAddresses(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	zone := service.Zone{
		ID: 2, Rate: 1, Window: time.Minute, Lockout: time.Hour,
		Keys: service.KeyRule{Kind: service.KeyIP},
	}
	actions := []service.OverrideAction{service.OverrideAllow, service.OverrideDeny, service.OverrideLimit}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) }
		overrides := map[string]service.Override{}
		for range random.IntN(8) {
			o := service.Override{ID: 1, ZoneID: 2, Action: actions[random.IntN(3)]}
			if bits := 27 + random.IntN(6); bits == 32 {
				o.Key = address(random.IntN(32)).String()
			} else {
				o.Prefix = netip.PrefixFrom(address(random.IntN(32)), bits).Masked()
			}
			if random.IntN(4) == 0 {
				o.ExpiresAt.Time = now
			}
			overrides[o.Key+o.Prefix.String()] = o
		}
		var list []service.Override
		for _, o := range overrides {
			list = append(list, o)
		}
		locked := map[string]bool{}
		var lockouts []lockout.Lockout
		for range random.IntN(5) {
			key, until := address(random.IntN(32)).String(), now.Add(time.Duration(random.IntN(3)-1)*time.Minute)
			lockouts = append(lockouts, lockout.Lockout{Key: key, Until: service.At(until)})
			locked[key] = locked[key] || until.After(now)
		}
		networks := firewall.Networks(now, zone, lockouts, list)
		for i := range 40 {
			key := address(i).String()
			o := service.InForce(now, zone, service.Bucket{ZoneID: 2, Key: key}, list)
			want := locked[key] && (o == nil || o.Action != service.OverrideAllow) || o != nil &&
				o.Action == service.OverrideDeny
			listed := false
			for _, network := range networks {
				listed = listed || network.Contains(address(i))
			}
			if listed != want {
				t.Fatalf("seed %d: %s is listed: %v, and blocked: %v; overrides %+v, lockouts %+v, networks %v", seed, key, listed,
					want,
					list, lockouts, networks)
			}
		}
	}
}

func TestFirewallListIsShortAndSorted(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	zone := service.Zone{ID: 2, Rate: 1, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyIP}}
	deny := func(network string) service.Override {
		o := service.Override{ZoneID: 2, Action: service.OverrideDeny}
		if prefix, err := netip.ParsePrefix(network); err == nil && prefix.Bits() < 64 {
			o.Prefix = prefix
		} else {
			o.Key = network
		}
		return o
	}
	overrides := []service.Override{
		deny("2001:db8:0:1::/64"), deny("203.0.113.0/24"), deny("203.0.113.9"), deny("10.0.0.1"), deny("erased:00ff"),
		deny("2001:db8::/64"),
	}
	lockouts := []lockout.Lockout{
		{Key: "10.0.0.0", Until: service.At(now.Add(1))},
		{Key: "9.9.9.9", Until: service.At(now.Add(1))},
	}
	const want = "9.9.9.9\n10.0.0.0/31\n203.0.113.0/24\n2001:db8::/63\n"
	if got := string(firewall.Text(firewall.Networks(now, zone, lockouts, overrides))); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for name, changed := range map[string]service.Zone{
		"of names":      {Mode: service.ModeEnforce},
		"that watches":  {Mode: service.ModeShadow, Keys: zone.Keys},
		"of pseudonyms": {Keys: service.KeyRule{Kind: service.KeyIP, Form: service.KeyHMAC}},
	} {
		if got := firewall.Networks(now, changed, lockouts, overrides); len(got) != 0 {
			t.Errorf("a zone %s has %v", name, got)
		}
	}
}
