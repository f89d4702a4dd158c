package handlers

import (
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"velocityd/socket"
)

// Limits of one connection. They keep slow or idle callers from holding memory
// for long.
const (
	headerTimeout  = 5 * time.Second
	bodyTimeout    = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 16 << 10
)

// answerTimeout is how long a caller may take to receive an answer that is ready. Who does
// not take it keeps its memory no longer.
const answerTimeout = 5 * time.Second

// http2Window is how many bytes of bodies that nobody has read yet one connection of
// HTTP/2 may hold, in all its requests. It is the smallest that net/http allows. On a
// connection of HTTP/1 such bytes stay in the kernel.
const http2Window = 64 << 10

// http2Frame is the longest frame that a connection of HTTP/2 reads, in bytes. It is the
// smallest that the protocol allows. Memory for a whole frame is taken when its head has come.
const http2Frame = 16 << 10

// sendBuffer is how many bytes of answers the kernel is asked to keep for a connection. By itself it would
// keep some MB of answers that nobody takes.
const sendBuffer = 64 << 10

// NewServer returns a server of handler. It closes connections that are slow or idle,
// and those on which a request has both Content-Length and Transfer-Encoding. work is
// the longest time that handler may take for a request once it has read it. logger
// gets what net/http says of connections, the same at most once a second; nil means no
// log. Nothing is started. Serve must be called with a listener of NewListener.
func NewServer(handler http.Handler, work time.Duration, logger *slog.Logger) *http.Server {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	errorLog := slog.NewLogLogger(logger.Handler(), slog.LevelWarn)
	errorLog.SetOutput(&faultLog{logger: logger})
	return &http.Server{
		Handler:           watched(handler),
		ConnContext:       withConnection,
		ConnState:         noteState,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      bodyTimeout + work + headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          errorLog,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: http2Streams, MaxReadFrameSize: http2Frame,
			MaxReceiveBufferPerConnection: http2Window, MaxReceiveBufferPerStream: http2Window, WriteByteTimeout: answerTimeout,
		},
	}
}

// lazyConn saves work on deadlines: it arms them only when a read or write starts.
// net/http sets eight per request; three reach the poller. A deadline fires up to one
// second early, never late.
type lazyConn struct {
	net.Conn
	read, write deadline
	known       *connection // what the service knows of it
	ended       sync.Once
}

func newLazyConn(inner net.Conn) *lazyConn {
	return &lazyConn{Conn: inner, read: deadline{arm: inner.SetReadDeadline}, write: deadline{arm: inner.SetWriteDeadline}}
}

// Close implements net.Conn. The first call counts the connection as ended.
func (c *lazyConn) Close() error {
	c.ended.Do(c.known.end)
	return c.Conn.Close()
}

// Read implements net.Conn.
func (c *lazyConn) Read(p []byte) (int, error) {
	if err := c.read.begin(); err != nil {
		return 0, err
	}
	defer c.read.end()
	return c.Conn.Read(p)
}

// Write implements net.Conn.
func (c *lazyConn) Write(p []byte) (int, error) {
	if err := c.write.begin(); err != nil {
		return 0, err
	}
	defer c.write.end()
	return c.Conn.Write(p)
}

// CloseWrite closes the sending half of the connection.
func (c *lazyConn) CloseWrite() error { return socket.CloseWrite(c.Conn) }

// SetReadDeadline implements net.Conn.
func (c *lazyConn) SetReadDeadline(t time.Time) error { return c.read.set(t) }

// SetWriteDeadline implements net.Conn.
func (c *lazyConn) SetWriteDeadline(t time.Time) error { return c.write.set(t) }

// SetDeadline implements net.Conn.
func (c *lazyConn) SetDeadline(t time.Time) error {
	if err := c.read.set(t); err != nil {
		return err
	}
	return c.write.set(t)
}

// deadline is the deadline of a connection's reads, or of its writes.
type deadline struct {
	arm func(time.Time) error // sets the deadline of the inner connection

	mu      sync.Mutex
	wanted  time.Time // what net/http has set; zero means no deadline
	armed   time.Time // what the inner connection has
	waiting int       // how many calls are reading, or writing
}

// mostEarly is how much earlier than wanted the armed deadline may be.
const mostEarly = time.Second

// set changes the wanted deadline. It takes effect at once for calls that are reading
// or writing now.
func (d *deadline) set(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = t
	if d.waiting > 0 {
		return d.rearm()
	}
	return nil
}

// begin must be called before a read or write, and end after it unless begin has
// failed.
func (d *deadline) begin() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	early := d.wanted.Sub(d.armed)
	if d.wanted.IsZero() != d.armed.IsZero() || early < 0 || early > mostEarly {
		if err := d.rearm(); err != nil {
			return err
		}
	}
	d.waiting++
	return nil
}

func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting--
}

func (d *deadline) rearm() error {
	d.armed = d.wanted
	return d.arm(d.wanted)
}
