package enginetest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreePort is a TCP port of the loopback that was free a moment ago. It is
// below those that Linux gives to outgoing connections, because one of these
// could take it before the server that it is for.
func FreePort(tb testing.TB) int {
	tb.Helper()
	const first, ports, tries = 15_000, 15_000, 100
	var err error
	for range tries {
		var l net.Listener
		port := first + rand.IntN(ports)
		if l, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			_ = l.Close()
			return port
		}
	}
	tb.Fatalf("find a free port: %v", err)
	return 0
}
