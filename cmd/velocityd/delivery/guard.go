package delivery

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"velocityd/service"
)

// errInner says that a webhook's host has an address that is not public.
var errInner = errors.New("the address is not a public one: if the receiver is yours, name its host in --webhook-hosts")

// Admits returns whether the host of a URL is allowed by name. The error says why no event is ever sent there. Without
// one, and if the host is not allowed, that depends on the addresses of the host, which is looked up for each event.
func (s *Sender) Admits(address string) (isAllowed bool, err error) {
	to, err := url.Parse(address)
	if err != nil {
		return false, errors.New("the URL is none")
	}
	if slices.ContainsFunc(s.allowed, func(host string) bool { return strings.EqualFold(host, to.Hostname()) }) {
		return true, nil
	}
	if to.Scheme != "https" {
		return false, errors.New("http without TLS is for hosts that --webhook-hosts names")
	}
	name := "." + strings.TrimSuffix(strings.ToLower(to.Hostname()), ".")
	if inner, err := netip.ParseAddr(to.Hostname()); err == nil && !isPublic(inner) ||
		strings.HasSuffix(name, ".localhost") { // RFC 6761
		return false, errInner
	}
	return false, nil
}

// refuseInner refuses connections to addresses that are not public. The dialer calls it with each address that it is
// about to connect to, after the name was looked up: so a name whose address changes between a check and the connection
// gains nothing.
func refuseInner(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is no address", address)
	}
	if !isPublic(to.Addr()) {
		return errInner
	}
	return nil
}

// isPublic reports whether an address is one of the public internet. An address of IPv6 that stands for one of IPv4
// leads to a network that is not visible in it, but for the one form that sockets have for IPv4 itself.
func isPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || service.PlainAddr(a) != a {
		return false
	}
	for _, inner := range reserved() {
		if inner.Contains(a) {
			return false
		}
	}
	return true
}

// reserved are the networks that are not public and that package netip takes for global, by the registries of IANA for
// special-purpose addresses, but for those that service.PlainAddr knows.
func reserved() []netip.Prefix {
	var list []netip.Prefix
	for _, text := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4",
		"::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10",
	} {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}
