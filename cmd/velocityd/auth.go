package main

import (
	"fmt"
	"net/netip"
	"strings"

	"velocityd/handlers/admission"
)

// authFlags say which callers are answered.
type authFlags struct {
	RequireAuth    bool          `name:"require-auth" env:"VELOCITY_REQUIRE_AUTH" help:"Answer only callers with a token or a registered client certificate, on a loopback address as well. On every other address this is always so."`
	InsecureNoAuth bool          `name:"insecure-no-auth" env:"VELOCITY_INSECURE_NO_AUTH" help:"Answer every caller that reaches the addresses of --listen and --admin-listen, without asking who that is: they may also change zones and release buckets. For networks in which every program may do that."`
	TrustedProxies []networkFlag `name:"trusted-proxies" env:"VELOCITY_TRUSTED_PROXIES" sep:"," placeholder:"NETWORKS" help:"Addresses and networks of the proxies that are believed, separated by commas: from which address a request comes (X-Forwarded-For, Forwarded, --proxy-protocol), and on whose behalf (X-Forwarded-User). Default: none where callers must prove who they are, and otherwise this machine."`
}

// proxies returns the networks of --trusted-proxies.
func (f authFlags) proxies() admission.Proxies { return networks(f.TrustedProxies) }

// networks returns the networks of a flag.
func networks(flags []networkFlag) (list admission.Proxies) {
	for _, network := range flags {
		list = append(list, netip.Prefix(network))
	}
	return list
}

// networkFlag is a network on the command line, or an address, which is a network of one.
type networkFlag netip.Prefix

// UnmarshalText reads the network. Bits of the address behind the prefix are ignored.
func (f *networkFlag) UnmarshalText(text []byte) error {
	given := strings.TrimSpace(string(text))
	prefix, err := netip.ParsePrefix(given)
	if address, fault := netip.ParseAddr(given); fault == nil && address.Zone() == "" {
		address = address.Unmap()
		prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
	}
	if err != nil || prefix.Addr().Is4In6() {
		return fmt.Errorf("must be addresses or networks such as 192.0.2.7 or 10.0.0.0/8; one is %q", text)
	}
	if prefix.Bits() == 0 {
		return fmt.Errorf("must not be all addresses (%s), or each end user could choose the address that it counts for: "+
			"name the networks of the proxies, such as 10.0.0.0/8", given)
	}
	*f = networkFlag(prefix.Masked())
	return nil
}
