package wire

import (
	"net"
	"net/netip"
	"sync"
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
type places struct {
	most   int // in all; 0 means any number
	ofPeer int // of one peer; 0 means any number

	mu     sync.Mutex
	taken  int
	peers  map[netip.Prefix]int // the places of each peer that has some
	excess int                  // connections without a place
}

// take takes so many places for the peer. It reports whether they were free.
func (p *places) take(peer netip.Prefix, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.most > 0 && p.taken+n > p.most || p.ofPeer > 0 && p.peers[peer]+n > p.ofPeer {
		return false
	}
	p.taken += n
	if p.peers == nil {
		p.peers = map[netip.Prefix]int{}
	}
	p.peers[peer] += n
	return true
}

// takeExcess counts a connection without a place. It reports whether that may stay open.
func (p *places) takeExcess() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.excess >= mostExcess {
		return false
	}
	p.excess++
	return true
}

// giveBack gives back the places of a connection, or counts one without a place as ended.
func (p *places) giveBack(peer netip.Prefix, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n == 0 {
		p.excess--
		return
	}
	p.taken -= n
	if p.peers[peer] -= n; p.peers[peer] == 0 {
		delete(p.peers, peer)
	}
}

// peerOf returns the network that stands for the machine at address. All addresses that
// are not of IP, such as sockets of Unix, are one peer.
func peerOf(address net.Addr) netip.Prefix {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	return networkOf(tcp.AddrPort().Addr())
}

// networkOf returns the network that stands for the machine at an address of IP.
func networkOf(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	network, _ := ip.Prefix(min(ip.BitLen(), peerBits)) // fails for no address at all
	return network
}
