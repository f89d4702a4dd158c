package wire

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// WithPartDeadlines lifts the bounds of the whole request and the whole answer, for handlers of long exchanges:
// downloads, streams, websockets. Each part of the body must come within streamTimeout, and each part of the answer be
// taken within it, also after an upgrade. It must be called before the body is read. The caller's leaving ends the
// request's context, with any body. The handler must call SetPartDeadline at its end, for what net/http still has to
// send.
func WithPartDeadlines(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	parts := &partWriter{ResponseWriter: w, control: http.NewResponseController(w)}
	_ = parts.control.SetWriteDeadline(time.Time{})
	hasBody := r.Body != nil && r.Body != http.NoBody
	if r.ProtoMajor == 1 {
		ConnectionOf(r).detached.end()
	}
	if r.ProtoMajor != 1 || !hasBody {
		_ = parts.control.SetReadDeadline(time.Time{})
	}
	r = r.WithContext(r.Context()) // a copy
	if hasBody {
		r.Body = &partReader{ReadCloser: r.Body, control: parts.control, isHTTP1: r.ProtoMajor == 1}
	}
	return parts, r
}

// partReader is a body whose parts must come in time.
type partReader struct {
	io.ReadCloser
	control *http.ResponseController
	isHTTP1 bool
}

// Read implements io.Reader. Between two parts, HTTP/1 keeps the deadline for net/http, which reads the rest that a
// handler has left of a body. A deadline of HTTP/2 would end the body while the handler is at work.
func (b *partReader) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(streamTimeout))
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) || !b.isHTTP1 {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// partWriter is an answer whose parts must be taken in time.
type partWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Unwrap is for http.ResponseController.
func (w *partWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// withDeadline sends a part. Between two parts there is no deadline: HTTP/2 would end an answer by one though nothing
// waits to be taken.
func (w *partWriter) withDeadline(send func()) {
	_ = w.control.SetWriteDeadline(time.Now().Add(streamTimeout))
	send()
	_ = w.control.SetWriteDeadline(time.Time{})
}

// WriteHeader implements http.ResponseWriter. Statuses such as 103 are sent at once.
func (w *partWriter) WriteHeader(status int) {
	w.withDeadline(func() { w.ResponseWriter.WriteHeader(status) })
}

// Write implements http.ResponseWriter.
func (w *partWriter) Write(part []byte) (n int, err error) {
	w.withDeadline(func() { n, err = w.ResponseWriter.Write(part) })
	return n, err
}

// FlushError is for http.ResponseController.
func (w *partWriter) FlushError() (err error) {
	w.withDeadline(func() { err = w.control.Flush() })
	return err
}

// Hijack implements http.Hijacker.
func (w *partWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := w.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	return partConn{conn}, buffered, nil
}

// partConn is a connection after an upgrade. What is written to it must be taken in time.
type partConn struct{ net.Conn }

// Write implements net.Conn.
func (c partConn) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(streamTimeout))
	return c.Conn.Write(p)
}

// CloseWrite closes the sending half of the connection.
func (c partConn) CloseWrite() error { return closeWrite(c.Conn) }
