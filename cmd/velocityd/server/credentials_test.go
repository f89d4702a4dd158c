package server

import (
	"net"
	"net/netip"
	"testing"
)

func TestWhoMustProveWhoHeIs(t *testing.T) {
	t.Parallel()
	for address, local := range map[string]bool{
		"127.0.0.1:1": true, "127.1.2.3:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true,
		"0.0.0.0:1": false, "[::]:1": false, "192.0.2.1:1": false, "[fe80::1]:1": false,
	} {
		tcp := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))
		if got := (Options{}).RequiresAuth(tcp); got == local {
			t.Errorf("%s: required: %t", address, got)
		}
		if !(Options{RequireAuth: true}).RequiresAuth(tcp) || (Options{InsecureNoAuth: true}).RequiresAuth(tcp) {
			t.Errorf("%s: a flag does not hold", address)
		}
	}
	if !(Options{}).RequiresAuth(&net.UnixAddr{Name: "/x", Net: "unix"}) {
		t.Error("an address that is not known to be local")
	}
}
