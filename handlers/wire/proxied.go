package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/pires/go-proxyproto"
)

// proxied is a connection that a proxy has passed on. The PROXY protocol's header at its beginning has been read.
type proxied struct {
	net.Conn
	// rest has the bytes behind the header that came with it; nil: they have been read.
	rest   *bufio.Reader
	client net.Addr
}

// RemoteAddr implements net.Conn: it is the client's address.
func (c *proxied) RemoteAddr() net.Addr { return c.client }

// Read implements net.Conn.
func (c *proxied) Read(p []byte) (int, error) {
	if c.rest == nil {
		return c.Conn.Read(p)
	}
	n, err := c.rest.Read(p[:min(len(p), c.rest.Buffered())])
	if c.rest.Buffered() == 0 {
		c.rest = nil
	}
	return n, err
}

// CloseWrite closes the sending half of the connection.
func (c *proxied) CloseWrite() error { return closeWrite(c.Conn) }

// readProxied reads the header of the PROXY protocol, version 1 or 2, which the proxy at the other end sends first. It
// must come within headerTimeout, and before ctx ends. A proxy that speaks for itself (LOCAL, UNKNOWN), as in its
// health checks, or for a client without an address of TCP, stays the client. The error may repeat a word that was
// sent.
func readProxied(ctx context.Context, conn net.Conn) (*proxied, error) {
	if err := conn.SetReadDeadline(time.Now().Add(headerTimeout)); err != nil {
		return nil, fmt.Errorf("set the deadline of the PROXY header: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	reader := bufio.NewReader(conn)
	header, err := proxyproto.Read(reader)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, proxyproto.ErrNoProxyProtocol) && reader.Buffered() == 0:
		return nil, io.EOF
	case err != nil:
		return nil, err
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("lift the deadline of the PROXY header: %w", err)
	}
	c := &proxied{Conn: conn, client: conn.RemoteAddr()}
	if reader.Buffered() > 0 {
		c.rest = reader
	}
	if source, _, ok := header.TCPAddrs(); ok && header.Command.IsProxy() {
		c.client = source
	}
	return c, nil
}

// isOfProxy reports whether the other end of a connection must send a PROXY header. It goes by the address alone, and
// not by what was sent: others are served as they are, and cannot claim anything.
func (o Options) isOfProxy(conn net.Conn) bool {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	return ok && o.Proxies.Trust(tcp.AddrPort().Addr())
}

// logHeader logs the error of reading a PROXY header, unless the proxy has only gone away.
func (l *listener) logHeader(err error) {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, context.Canceled):
	case errors.Is(err, proxyproto.ErrNoProxyProtocol):
		l.faults.ReportConnection("proxy_header", "a trusted proxy has sent no header of the PROXY protocol, which "+
			"--proxy-protocol demands; closed")
	default:
		l.faults.ReportConnection("proxy_header", "read the header of the PROXY protocol: "+withoutNames(err.Error()))
	}
}
