package delivery

import (
	"errors"
	"net/netip"
	"testing"
)

func TestInnerAddressesAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"169.254.169.254",
		"100.64.0.1", "192.0.0.192", "198.18.0.1", "224.0.0.1", "239.1.1.1", "255.255.255.255", "240.0.0.1", "192.0.2.1",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "fe80::1", "fe80::1%lo", "fc00::1", "fd12:3456::1",
		"ff02::1",
		"64:ff9b::7f00:1", "64:ff9b:1::a00:1", "2002:7f00:1::1", "2001:0:7f00:1::", "fec0::1", "2001:db8::1", "fd00:ec2::254",
		"::ffff:0:7f00:1", "::ffff:0:a00:1", "::ffff:0:808:808", "64:ff9b::808:808", "2002:808:808::1", "2001:0:808:808::",
	} {
		if isPublic(netip.MustParseAddr(text)) {
			t.Errorf("%s is public", text)
		}
		if err := refuseInner("tcp", netip.AddrPortFrom(netip.MustParseAddr(text), 443).String(), nil); !errors.Is(
			err, errInner) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		"8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "192.169.0.1", "2606:4700::1111",
		"2a00:1450::1", "::ffff:8.8.8.8",
	} {
		if !isPublic(netip.MustParseAddr(text)) {
			t.Errorf("%s is not public", text)
		}
	}
}
