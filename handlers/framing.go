package handlers

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// A request with both Content-Length and Transfer-Encoding is of one length to one
// program and of another to the next: what follows it on the connection may have been
// smuggled in. RFC 9112, section 6.1, wants the connection closed after its answer.
// net/http takes such a request as chunked, hides its Content-Length, and goes on, so
// the connection itself watches for the field.

// lengthField begins a line of a request's header.
const lengthField = "\ncontent-length"

// lengthWatch counts the fields Content-Length that a connection was sent. A line of a
// body may look like one, too, and so may come the next request before its time: then
// a connection is closed without need.
type lengthWatch struct {
	matched int // how much of lengthField the bytes so far end in
	sent    atomic.Int64
	known   int64 // of requests that were handled
}

// look takes note of what was received.
func (w *lengthWatch) look(p []byte) {
	for len(p) > 0 {
		if w.matched == 0 {
			end := bytes.IndexByte(p, '\n')
			if end < 0 {
				return
			}
			w.matched, p = 1, p[end+1:]
			continue
		}
		if c := p[0]; c != lengthField[w.matched] && (c < 'A' || c > 'Z' || c+('a'-'A') != lengthField[w.matched]) {
			w.matched = 0 // and the byte is looked at again: it may end a line
			continue
		}
		p = p[1:]
		if w.matched++; w.matched == len(lengthField) {
			w.sent.Add(1)
			w.matched = 0
		}
	}
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// closeAmbiguous has the connection of a chunked request closed after its answer if more
// fields Content-Length were sent on it than its other requests had.
func closeAmbiguous(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*lazyConn); ok {
			switch {
			case len(r.Header[fieldContentLength]) > 0:
				c.lengths.known++ // net/http makes one of several that are the same
			case len(r.TransferEncoding) > 0 && c.lengths.sent.Load() > c.lengths.known:
				w.Header().Set("Connection", "close")
			}
		}
		next.ServeHTTP(w, r)
	})
}
