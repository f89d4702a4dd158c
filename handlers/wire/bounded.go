package wire

import (
	"net"
	"net/netip"
	"sync"

	"velocityd/handlers/admission"
	"velocityd/service/shares"
)

// NewBounded returns a listener for a protocol other than HTTP that closes connections above MaxConnections and
// MaxConnectionsPerPeer of o. Each connection takes so many places. Of o it uses the bounds and the Logger alone.
func NewBounded(inner net.Listener, o Options, each int) net.Listener {
	return &bounded{inner, o.places(), admission.FaultLog{Logger: o.Logger}, each}
}

type bounded struct {
	net.Listener
	places *shares.Pool[netip.Prefix]
	faults admission.FaultLog
	each   int
}

// Accept implements net.Listener.
func (l *bounded) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := peerOf(inner.RemoteAddr())
		if l.places.Take(peer, l.each) == nil {
			return &placed{Conn: inner, giveBack: sync.OnceFunc(func() { l.places.GiveBack(peer, l.each) })}, nil
		}
		_ = inner.Close()
		l.faults.ReportConnection("connections_exhausted", "too many connections; closed without an answer")
	}
}
