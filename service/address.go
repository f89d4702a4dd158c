package service

import (
	"net/netip"
	"strconv"
	"strings"
)

// PlainAddr returns the address by which an address is counted. A zone id (fe80::1%eth0) goes,
// because it names an interface of this machine and says nothing about the peer. An IPv6
// address that stands for an IPv4 one becomes that: see ipv4In.
func PlainAddr(addr netip.Addr) netip.Addr {
	if v4, _ := ipv4In(addr); v4.IsValid() {
		return v4
	}
	return addr.WithZone("")
}

// ipv4In returns the IPv4 address for which an IPv6 address stands, if it does. A host that
// has the one can be reached by the other, so they are one host. Networks of at least block
// bits around addr hold no address with a bucket in IPv6. These forms are known:
//
//	::ffff:0:0/96, ::/96  IPv4-mapped and IPv4-compatible, but for ::1 and the like (RFC 4291)
//	::ffff:0:0:0/96       IPv4-translated (RFC 2765)
//	64:ff9b::/96          NAT64 (RFC 6052)
//	2002::/16             6to4 (RFC 3056): the IPv4 address of one site, with 65,536 subnets
//	2001::/32             Teredo (RFC 4380): the client's, with inverted bits, after the server's
//
// Forms inside a network's own prefix are NOT known. NAT64 by a prefix of one's own and 6rd can
// not be seen in an address. ISATAP can, but the host chooses those bits and could
// choose the address of a stranger.
func ipv4In(addr netip.Addr) (v4 netip.Addr, block int) {
	if !addr.Is6() {
		return netip.Addr{}, 0
	}
	b := addr.As16()
	last := [4]byte(b[12:])
	switch head := string(b[:12]); {
	case addr.Is4In6(), head == "\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00", strings.Trim(head, "\x00") == "" &&
		last[0] != 0:
		return netip.AddrFrom4(last), 96
	case head == "\x00\x64\xff\x9b\x00\x00\x00\x00\x00\x00\x00\x00":
		return netip.AddrFrom4(last), 48
	case strings.HasPrefix(head, "\x20\x02"):
		return netip.AddrFrom4([4]byte(b[2:6])), 16
	case strings.HasPrefix(head, "\x20\x01\x00\x00"):
		return netip.AddrFrom4([4]byte{^last[0], ^last[1], ^last[2], ^last[3]}), 32
	}
	return netip.Addr{}, 0
}

// holdsIPv4Alone says that no address of an IPv6 network has a bucket in IPv6.
func holdsIPv4Alone(network netip.Prefix) bool {
	v4, block := ipv4In(network.Addr())
	return v4.IsValid() && network.Bits() >= block
}

// bucketBits returns how many leading bits of a plain address tell buckets apart. In the local
// prefixes of NAT64 (64:ff9b:1::/48, RFC 8215) only the network itself knows where an IPv4
// address stands, so there each address is a bucket. Hosts do not choose them: translators do.
// In zones whose buckets are larger than those prefixes, they are in a bucket as all others.
func (r KeyRule) bucketBits(addr netip.Addr) int {
	const local = 47 // 64:ff9b::/47
	switch {
	case addr.Is4():
		return r.IPv4Prefix
	case r.IPv6Prefix >= local &&
		netip.PrefixFrom(addr, local).Masked().Addr() == netip.AddrFrom16([16]byte{1: 0x64, 2: 0xff, 3: 0x9b}):
		return addr.BitLen()
	}
	return r.IPv6Prefix
}

func (r KeyRule) normalizeIP(key string) (string, error) {
	text, length, isNetwork := strings.Cut(key, "/")
	addr, err := netip.ParseAddr(text)
	if err != nil || isNetwork && addr.Zone() != "" {
		return "", NewFieldError("bucket_key", "must be an IPv4 or IPv6 address in this zone")
	}
	if isNetwork {
		addr = addr.Unmap()
	} else {
		addr = PlainAddr(addr)
	}
	bits := r.bucketBits(addr)
	network := netip.PrefixFrom(addr, bits).Masked()
	// A network is a key only in the length in which the zone's buckets are written.
	if isNetwork && (length != strconv.Itoa(bits) || holdsIPv4Alone(network)) {
		return "", NewFieldError("bucket_key", "must be an address or a network of /%d in this zone", bits)
	}
	return bucketOf(network), nil
}

// bucketOf returns the key of the bucket that is a masked network: a single address
// is written without its length.
func bucketOf(network netip.Prefix) string {
	if network.IsSingleIP() {
		return network.Addr().String()
	}
	return network.String()
}

// NetworkOf returns the network that a bucket's key means where keys are
// addresses: an address is a network of itself alone.
func NetworkOf(key string) (network netip.Prefix, ok bool) {
	if addr, err := netip.ParseAddr(key); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), true
	}
	network, err := netip.ParsePrefix(key)
	return network, err == nil
}
