// Package firewall makes the list of addresses that a firewall may refuse. It must not know where lockouts and
// overrides come from.
package firewall

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go4.org/netipx"

	"velocityd/service"
	"velocityd/service/lockout"
)

// MaxNetworks bounds the lockouts and the overrides of which a list for firewalls is made.
const MaxNetworks = 100_000

// Networks returns the addresses whose attempts a zone of addresses blocks at now: those of lockouts,
// and those of overrides with action deny, without those that a more specific override excepts. They are the fewest
// networks that hold these addresses and no others, in order: IPv4 first. A zone that does not enforce blocks none.
func Networks(
	now time.Time, zone service.Zone, lockouts []lockout.Lockout, overrides []service.Override,
) []netip.Prefix {
	if zone.Keys.Kind != service.KeyIP || zone.Keys.Form == service.KeyHMAC || !lockout.Enforces(zone) {
		return nil
	}
	var denied, allowed netipx.IPSetBuilder
	for _, o := range inForce(now, overrides) {
		network, ok := networkOf(o)
		if !ok {
			continue
		}
		denied.RemovePrefix(network)
		allowed.RemovePrefix(network)
		switch o.Action {
		case service.OverrideDeny:
			denied.AddPrefix(network)
		case service.OverrideAllow:
			allowed.AddPrefix(network)
		}
	}
	for _, l := range lockouts {
		if network, ok := parse(l.Key); ok && now.Before(l.Until.Time) {
			denied.AddPrefix(network)
		}
	}
	if free, err := allowed.IPSet(); err == nil {
		denied.RemoveSet(free)
	}
	set, err := denied.IPSet() // an error says that a prefix is none, and those above are
	if err != nil {
		return nil
	}
	return set.Prefixes()
}

// inForce returns the overrides that have not expired, the more specific ones last, as they win.
func inForce(now time.Time, overrides []service.Override) []service.Override {
	rest := slices.DeleteFunc(slices.Clone(overrides),
		func(o service.Override) bool { return service.HasExpired(o.ExpiresAt.Time, now) })
	length := func(o service.Override) int {
		if o.Key != "" {
			return 129 // of the exact key
		}
		return o.Prefix.Bits()
	}
	slices.SortStableFunc(rest, func(x, y service.Override) int { return cmp.Compare(length(x), length(y)) })
	return rest
}

func networkOf(o service.Override) (netip.Prefix, bool) {
	if o.Key != "" {
		return parse(o.Key)
	}
	return o.Prefix, o.Prefix.IsValid()
}

// parse returns the network of a key, which is an address or a network. Keys that were written under another rule may
// be neither.
func parse(key string) (netip.Prefix, bool) {
	if strings.Contains(key, "/") {
		network, err := netip.ParsePrefix(key)
		return network.Masked(), err == nil
	}
	address, err := netip.ParseAddr(key)
	if err != nil || address.Zone() != "" {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(address, address.BitLen()), true
}

// Text returns networks as a firewall reads them: one a line, an address without its length.
func Text(networks []netip.Prefix) []byte {
	var text []byte
	for _, network := range networks {
		if network.IsSingleIP() {
			text = network.Addr().AppendTo(text)
		} else {
			text = network.AppendTo(text)
		}
		text = append(text, '\n')
	}
	return text
}
