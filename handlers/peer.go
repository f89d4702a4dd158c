package handlers

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// peerBits is how long the network is that counts as one peer of IPv6: a machine has
// all addresses of such a network to itself.
const peerBits = 64

// peer is a machine that has connections.
type peer struct {
	network     netip.Prefix
	connections int // guarded by the mutex of peers
	underWay    atomic.Int64
}

// peers are the machines that have connections. The zero value is ready for use.
type peers struct {
	mu    sync.Mutex
	known map[netip.Prefix]*peer
}

// join counts a connection from address, and returns its peer. leave must be called
// when it is closed.
func (p *peers) join(address net.Addr) *peer {
	network := peerOf(address)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = map[netip.Prefix]*peer{}
	}
	if p.known[network] == nil {
		p.known[network] = &peer{network: network}
	}
	p.known[network].connections++
	return p.known[network]
}

// leave takes a connection back that join has counted. It does nothing for nil.
func (p *peers) leave(of *peer) {
	if of == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if of.connections--; of.connections == 0 {
		delete(p.known, of.network)
	}
}

// peerOf returns the network that stands for the machine at address. All addresses that
// are not of IP, such as sockets of Unix, are one peer.
func peerOf(address net.Addr) netip.Prefix {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	network, _ := ip.Prefix(min(ip.BitLen(), peerBits)) // fails for no address at all
	return network
}
