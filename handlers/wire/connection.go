package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"velocityd/api"
)

// phase says where in a request a connection of HTTP/1 is. It tells the answers that net/http
// writes by itself, without calling a handler, from those of handlers.
type phase = int32

const (
	phaseIdle    phase = iota // the next request has not begun
	phaseHead                 // a part of a request's head has come
	phaseRead                 // net/http has read the head, or given up
	phaseHandled              // a handler has the request
)

// slowAnswerTime is how long a connection may take to tell its caller that it was slow.
const slowAnswerTime = 2 * time.Second

// Connection is one caller's connection, and the service's knowledge of it. net/http
// reads HTTP/1 from it. It reads HTTP/2 from the tls.Conn instead.
type Connection struct {
	net.Conn // requests are read from it: a placed socket, or TLS on one
	// IsExcess says that the connection has fewer places than it may use. Its requests
	// are to be refused.
	IsExcess bool

	listener   *listener
	peer       netip.Prefix
	places     int // that it has taken; none if it is a connection too many
	lengths    lengthWatch
	phase      atomic.Int32
	detached   detached
	isAnswered atomic.Bool // answerSlow has answered: nothing more may be written
}

// Read implements net.Conn. A caller that has begun a request and is slow with its head
// is answered before the error is returned, because net/http only closes the connection.
func (c *Connection) Read(p []byte) (int, error) {
	if c.detached.skips(p) {
		return 0, nil
	}
	n, err := c.Conn.Read(p)
	c.lengths.look(p[:n])
	switch c.phase.Load() {
	case phaseIdle:
		if n > 0 {
			c.phase.CompareAndSwap(phaseIdle, phaseHead)
		}
	case phaseHead:
		if errors.Is(err, os.ErrDeadlineExceeded) && c.phase.CompareAndSwap(phaseHead, phaseRead) {
			c.answerSlow()
		}
	}
	return n, err
}

// answerSlow answers a request whose head has not arrived in time. There is no exchange
// yet, so the answer is written as it goes over the wire.
func (c *Connection) answerSlow() {
	kind, _ := api.KindOf(api.ErrTooSlow)
	body, _ := json.Marshal(api.NewProblem(kind)) // strings can always be encoded
	answer := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nCache-Control: "+
		"no-store\r\nConnection: close\r\n\r\n%s",
		kind.Status, http.StatusText(kind.Status), api.MediaProblem, len(body), body)
	_ = c.SetWriteDeadline(time.Now().Add(slowAnswerTime))
	c.listener.logRefusal(answer)
	_, _ = c.Conn.Write(answer)
	c.isAnswered.Store(true)
}

// Write implements net.Conn. It logs the answers that net/http writes by itself. For a head that ends
// in the middle of a line net/http has one, too, which must not follow that of answerSlow.
func (c *Connection) Write(p []byte) (int, error) {
	if c.isAnswered.Load() {
		return len(p), nil
	}
	if c.phase.Load() < phaseHandled {
		c.listener.logRefusal(p)
	}
	return c.Conn.Write(p)
}

// CloseWrite closes the sending half of the connection. net/http calls it so that a
// caller that is refused before it has sent its whole request can read the answer.
func (c *Connection) CloseWrite() error { return closeWrite(c.Conn) }

// closeWrite closes the sending half of a connection, if it has halves.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *Connection) giveBack() {
	if c.places == 0 {
		c.listener.excess.GiveBack(c.peer, 1)
	} else {
		c.listener.places.GiveBack(c.peer, c.places)
	}
}

// placed is a socket whose first Close gives back the places of its connection.
type placed struct {
	net.Conn
	of       *Connection // nil if it does not speak HTTP
	giveBack func()      // has an effect once
}

// Close implements net.Conn.
func (c *placed) Close() error {
	c.giveBack()
	return c.Conn.Close()
}

// CloseWrite closes the sending half of the socket.
func (c *placed) CloseWrite() error { return closeWrite(c.Conn) }

// secureConnection is a connection of HTTP/1 over TLS.
type secureConnection struct {
	*Connection
	secure *tls.Conn
}

// ConnectionState gives net/http the value of Request.TLS.
func (c secureConnection) ConnectionState() tls.ConnectionState { return c.secure.ConnectionState() }

// fromConn returns the Connection of one that net/http serves, or nil if it is not of NewListener.
func fromConn(c net.Conn) *Connection {
	switch c := c.(type) {
	case *Connection:
		return c
	case secureConnection:
		return c.Connection
	case *tls.Conn: // of HTTP/2
		if socket, ok := c.NetConn().(*placed); ok {
			return socket.of
		}
	}
	return nil
}

// connectionKey is the key of a request's connection in its context.
type connectionKey struct{}

func withConnection(ctx context.Context, c net.Conn) context.Context {
	if c := fromConn(c); c != nil {
		return context.WithValue(ctx, connectionKey{}, c)
	}
	return ctx
}

// ConnectionOf returns the connection of a request. If another listener than that of NewListener has
// accepted it, nothing is known of it.
func ConnectionOf(r *http.Request) *Connection {
	if known, ok := r.Context().Value(connectionKey{}).(*Connection); ok {
		return known
	}
	return &Connection{}
}

// noteState follows the requests of a connection of HTTP/1.
func noteState(conn net.Conn, state http.ConnState) {
	c := fromConn(conn)
	switch {
	case c == nil:
	case state == http.StateActive:
		c.phase.Store(phaseRead)
	case state == http.StateIdle:
		c.phase.Store(phaseIdle)
		c.detached.end()
	}
}

// watched closes the connection of a request of two lengths after its answer, and tells
// connections when handlers begin.
func watched(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := ConnectionOf(r); r.ProtoMajor == 1 {
			c.phase.Store(phaseHandled)
			c.detached.begin(r)
			if c.lengths.isAmbiguous(r) {
				w.Header().Set("Connection", "close")
			}
		}
		next.ServeHTTP(w, r)
	})
}
