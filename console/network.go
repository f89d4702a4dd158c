package console

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"velocityd/service"
	"velocityd/service/zonereport"
)

// mostNetworks bounds the networks that a page shows.
const mostNetworks = 10

// The lengths of the prefixes by which addresses are put together where their network is not known.
const (
	shownIPv4Prefix = 24
	shownIPv6Prefix = 48
)

// network is the attempts that were stopped from the addresses of a network.
type network struct {
	Name      string
	Country   string
	Addresses int
	Stopped   int64
}

// networksOf puts the stopped addresses of a report together by network, those with the most stopped attempts first.
func networksOf(report zonereport.Report) []network {
	byName := map[string]*network{}
	for _, key := range report.Stopped {
		name, country := networkOf(key.Key, report.Origins[key.Key])
		n := byName[name]
		if n == nil {
			n = &network{Name: name, Country: country}
			byName[name] = n
		}
		if n.Country != country {
			n.Country = "" // it is in several
		}
		n.Addresses++
		n.Stopped += key.WouldBlock
	}
	all := make([]network, 0, len(byName))
	for _, n := range byName {
		all = append(all, *n)
	}
	slices.SortFunc(
		all, func(a, b network) int { return cmp.Or(cmp.Compare(b.Stopped, a.Stopped), cmp.Compare(a.Name, b.Name)) })
	return all[:min(len(all), mostNetworks)]
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
