package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"velocityd/handlers/admission"
	"velocityd/service/shares"
)

// Options are the settings of NewListener. The zero value bounds
// nothing, logs nothing and speaks plain text.
type Options struct {
	// TLS makes connections speak TLS. Its NextProtos decide whether HTTP/2 can be
	// spoken.
	TLS *tls.Config
	// MaxConnections is how many connections are served at once; 0 means any number. One of
	// HTTP/2 counts as HTTP2Streams, because as many requests may be under way on it.
	// Further ones have IsExcess: handlers refuse their requests, and close them after the answer.
	MaxConnections int
	// MaxConnectionsPerPeer is the same for one peer, an IPv4 address or an IPv6 network of
	// 64 bits.
	MaxConnectionsPerPeer int
	// Proxies send the address of the client first on each connection, by the PROXY protocol, version 1 or 2. Their
	// connections are refused without it. Those of other addresses have none. Nil means that no peer sends it.
	Proxies admission.Proxies
	// Logger gets a line for connections that fail, the same fault at most once a
	// second. Nil means no log.
	Logger *slog.Logger
	// AccessLog makes Logger get one line for each request that is refused before it
	// reaches a handler, too.
	AccessLog bool
}

// NewListener returns a listener whose connections are those that NewServer expects.
// It owns inner. It starts goroutines at the first Accept, which end with Close.
func NewListener(inner net.Listener, o Options) net.Listener {
	l := &listener{
		Listener: inner, options: o, faults: admission.FaultLog{Logger: o.Logger},
		places: o.places(), excess: shares.Pool[netip.Prefix]{Most: mostExcess}, ready: make(chan accepted),
	}
	l.running, l.end = context.WithCancel(context.Background())
	return l
}

// listener bounds its connections, and hands them over when HTTP begins: the header of the PROXY protocol is read,
// because the bounds of peers count the client; and the handshake of TLS is complete, because the protocol that was
// agreed upon decides from which of the two net/http reads.
type listener struct {
	net.Listener
	options Options
	places  *shares.Pool[netip.Prefix] // of connections that are not closed yet
	excess  shares.Pool[netip.Prefix]  // connections without a place
	faults  admission.FaultLog
	ready   chan accepted
	begun   sync.Once
	running context.Context // ends with Close
	end     context.CancelFunc
	// awaitingHeader counts the connections whose proxy has not named the client yet. They have taken no place.
	awaitingHeader atomic.Int32
}

// admit returns the connection that inner becomes, or nil if there were far too many
// and it is closed.
func (l *listener) admit(inner net.Conn) *Connection {
	c := &Connection{listener: l, peer: peerOf(inner.RemoteAddr())}
	switch {
	case l.places.Take(c.peer, 1) == nil:
		c.places = 1
	case l.excess.Take(c.peer, 1) == nil:
		c.IsExcess = true
	default:
		_ = inner.Close()
		l.faults.ReportConnection("connections_exhausted", "too many connections; closed without an answer")
		return nil
	}
	socket := inner
	if named, ok := inner.(*proxied); ok {
		socket = named.Conn
	}
	if tcp, ok := socket.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // fails if the connection has gone
	}
	c.Conn = &placed{Conn: inner, of: c, giveBack: sync.OnceFunc(c.giveBack)}
	return c
}

// logRefusal logs an answer to a request that no handler gets, as it goes over the wire.
// Its first line has no text of the caller's.
func (l *listener) logRefusal(answer []byte) {
	const protocol, digits = len("HTTP/1.1 "), len("400")
	if !l.options.AccessLog || l.options.Logger == nil || len(answer) < protocol+digits+1 {
		return
	}
	line, _, _ := bytes.Cut(answer[protocol:], []byte("\r\n"))
	status, _ := strconv.Atoi(string(line[:digits]))
	l.options.Logger.LogAttrs(context.Background(), slog.LevelInfo, "request", slog.String("method", ""),
		slog.String("route", ""),
		slog.Int("status", status), slog.Int("bytes", len(answer)), slog.String("error", string(line[digits+1:])))
}

// mostAwaitingHeader is how many connections of proxies may wait for their header at once. A proxy sends it with the
// connection, so they do not wait for long.
const mostAwaitingHeader = 1024

type accepted struct {
	conn net.Conn
	err  error
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	l.begun.Do(func() { go l.run() })
	select {
	case a := <-l.ready:
		return a.conn, a.err
	case <-l.running.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It ends the headers and handshakes that are under way.
func (l *listener) Close() error {
	l.end()
	return l.Listener.Close()
}

// run begins to prepare each connection, until the listener is closed.
func (l *listener) run() {
	for {
		inner, err := l.Listener.Accept()
		switch {
		case err != nil:
			if !l.handOver(accepted{err: err}) {
				return
			}
		case l.options.isOfProxy(inner):
			l.readProxyHeader(inner)
		default:
			l.prepare(inner)
		}
	}
}

// handOver waits until Accept returns a. It returns false if the listener was closed.
func (l *listener) handOver(a accepted) bool {
	select {
	case l.ready <- a:
		return true
	case <-l.running.Done():
		return false
	}
}

// readProxyHeader prepares a connection of a proxy once that has named the client. It waits for nothing.
func (l *listener) readProxyHeader(inner net.Conn) {
	if l.awaitingHeader.Add(1) > mostAwaitingHeader {
		l.awaitingHeader.Add(-1)
		_ = inner.Close()
		l.faults.ReportConnection("connections_exhausted",
			"too many connections of proxies that have sent no PROXY header; closed")
		return
	}
	go func() {
		named, err := readProxied(l.running, inner)
		l.awaitingHeader.Add(-1)
		if err != nil {
			l.logHeader(err)
			_ = inner.Close()
			return
		}
		l.prepare(named)
	}()
}

// prepare admits a connection and hands it over, with TLS once its handshake is complete. It does not wait for that.
func (l *listener) prepare(inner net.Conn) {
	c := l.admit(inner)
	switch {
	case c == nil:
	case l.options.TLS != nil:
		go l.secure(c)
	case !l.handOver(accepted{conn: c}):
		_ = c.Close()
	}
}

// secure completes the handshake of c, and hands c over. It closes c if that fails.
func (l *listener) secure(c *Connection) {
	secure := tls.Server(c.Conn, l.options.TLS)
	ctx, cancel := context.WithTimeout(l.running, headerTimeout)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		l.logHandshake(err)
		_ = secure.Close()
		return
	}
	var conn net.Conn = secure // net/http speaks HTTP/2 with nothing but a tls.Conn
	switch {
	case secure.ConnectionState().NegotiatedProtocol != "h2":
		c.Conn = secure
		conn = secureConnection{c, secure}
	case c.IsExcess:
	case l.places.Take(c.peer, HTTP2Streams-1) == nil:
		c.places = HTTP2Streams
	default:
		c.IsExcess = true
	}
	if !l.handOver(accepted{conn: conn}) {
		_ = secure.Close()
	}
}

// logHandshake answers a caller that speaks plain HTTP with TLS's port, and logs the error of a handshake, unless the
// caller has only gone away, as probes of load balancers do.
func (l *listener) logHandshake(err error) {
	var plain tls.RecordHeaderError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, context.Canceled):
	case errors.As(err, &plain) && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader):
		answer := []byte("HTTP/1.0 400 Bad Request\r\nConnection: close\r\n\r\nThis port speaks HTTPS.\n")
		l.logRefusal(answer)
		_, _ = plain.Conn.Write(answer)
	default:
		l.faults.ReportConnection("tls_handshake", withoutNames(err.Error()))
	}
}

// withoutNames cuts the error of a handshake or of a PROXY header before the first text that its sender has made up:
// names of protocols, those in a certificate, or a wrong address.
func withoutNames(text string) string {
	if i := strings.IndexAny(text, `(["`); i > 0 {
		text = strings.TrimSpace(text[:i])
	}
	return text
}

// looksLikeHTTP reports whether the first bytes of a connection are a method's name.
func looksLikeHTTP(first [5]byte) bool {
	switch string(first[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "DELET", "OPTIO", "PATCH", "TRACE", "CONNE":
		return true
	}
	return false
}
