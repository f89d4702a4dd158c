package wire

import (
	"net"
	"net/netip"

	"velocityd/service/shares"
)

// peerBits is how long the network is that counts as one peer of IPv6: a machine has
// all addresses of such a network to itself.
const peerBits = 64

// HTTP2Streams is how many requests one connection of HTTP/2 may have under way at once.
// A request is under way until its caller has taken the whole answer.
const HTTP2Streams = 16

// mostExcess is how many connections are open at a time only to have their requests
// refused. Those above are closed at once, without an answer.
const mostExcess = 64

// places bound the requests that callers can have under way. A connection takes one place for each request that it
// may have under way at once: one, or HTTP2Streams for one of HTTP/2. So requests need not
// be counted, and nothing that a caller does or leaves undone takes more.
func (o Options) places() *shares.Pool[netip.Prefix] {
	return &shares.Pool[netip.Prefix]{Of: "connections", Most: o.MaxConnections, Each: o.MaxConnectionsPerPeer}
}

// peerOf returns the network that stands for the machine at address. All addresses that
// are not of IP, such as sockets of Unix, are one peer.
func peerOf(address net.Addr) netip.Prefix {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	return NetworkOf(tcp.AddrPort().Addr())
}

// NetworkOf returns the network that stands for the machine at an address of IP.
func NetworkOf(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	network, _ := ip.Prefix(min(ip.BitLen(), peerBits)) // fails for no address at all
	return network
}
