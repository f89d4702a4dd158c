package zonereport

import (
	"cmp"
	"fmt"
	"net/netip"

	"velocityd/service"
)

// mostNetworks bounds the networks of a report.
const mostNetworks = 10

// The lengths of the prefixes by which addresses are put together where their network is not known.
const (
	shownIPv4Prefix = 24
	shownIPv6Prefix = 48
)

// Network is the attempts that were stopped from the addresses of a network.
type Network struct {
	Name    string
	Country string      // "" if it is not known, or they are in several
	Keys    []KeyTotals // of the addresses, those with the most stopped attempts first
	Stopped int64
}

// Networks puts stopped addresses together by network, those with the most stopped attempts first.
func (r Report) Networks(stopped []KeyTotals) []Network {
	byName := map[string]*Network{}
	for _, key := range stopped {
		name, country := networkOf(key.Key, r.Origins[key.Key])
		n := byName[name]
		if n == nil {
			n = &Network{Name: name, Country: country}
			byName[name] = n
		}
		if n.Country != country {
			n.Country = ""
		}
		n.Keys = append(n.Keys, key)
		n.Stopped += key.WouldBlock
	}
	all := make([]Network, 0, len(byName))
	for _, n := range byName {
		all = append(all, *n)
	}
	return topOf(mostNetworks, all,
		func(a, b Network) int { return cmp.Or(cmp.Compare(b.Stopped, a.Stopped), cmp.Compare(a.Name, b.Name)) })
}

// networkOf returns the network of an address and its country: the autonomous system, or a prefix where it is not known
// that.
func networkOf(key string, origin service.Origin) (name, country string) {
	if origin.ASN != 0 {
		return fmt.Sprintf("AS%d %s", origin.ASN, origin.Organization), origin.Country
	}
	prefix, err := netip.ParsePrefix(key)
	if err != nil {
		address, err := netip.ParseAddr(key)
		if err != nil {
			return key, origin.Country // a pseudonym
		}
		prefix = netip.PrefixFrom(address, address.BitLen())
	}
	bits := shownIPv4Prefix
	if prefix.Addr().Is6() {
		bits = shownIPv6Prefix
	}
	return netip.PrefixFrom(prefix.Addr(), min(bits, prefix.Bits())).Masked().String(), origin.Country
}
