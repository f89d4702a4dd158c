package enginetest

import (
	"net/netip"
	"testing"

	"velocityd/tools/enginetest/relay"
)

// FreePort is the port of a relay.FreeAddress.
func FreePort(tb testing.TB) int {
	tb.Helper()
	address, err := relay.FreeAddress()
	if err != nil {
		tb.Fatal(err)
	}
	return int(netip.MustParseAddrPort(address).Port())
}
