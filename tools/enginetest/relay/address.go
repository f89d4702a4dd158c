package relay

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// FreeAddress returns a TCP address of the loopback that was free a moment ago. It is below those that Linux gives to
// outgoing connections, because one of these could take it before the server that it is for.
func FreeAddress() (address string, err error) {
	const first, ports, tries = 15_000, 15_000, 100
	for range tries {
		var l net.Listener
		address = fmt.Sprint("127.0.0.1:", first+rand.IntN(ports))
		if l, err = net.Listen("tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}
