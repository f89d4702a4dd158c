package handlers

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// Programs disagree on the length of a request with both Content-Length and
// Transfer-Encoding, so the next request on its connection may have been smuggled in.
// RFC 9112, section 6.1, wants the connection closed after the answer. net/http reads
// such a request as chunked, hides its Content-Length, and keeps the connection. So the
// connection itself looks for the field.

// lengthField is how a header's line with Content-Length begins.
const lengthField = "\ncontent-length"

// lengthWatch counts the fields Content-Length that were received on a connection. It
// also counts lines of bodies that look like one, and fields of a next request that was
// sent early. Then the connection is closed without need.
type lengthWatch struct {
	matched int // how many bytes of lengthField the received bytes end with
	sent    atomic.Int64
	known   int64 // fields of requests that were handled
}

// look counts the fields in p, the next bytes received.
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
			w.matched = 0 // the byte is looked at again: it may end a line
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

// closeAmbiguous closes the connection of a chunked request after its answer if more
// fields Content-Length were received on it than its other requests had.
func closeAmbiguous(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*lazyConn); ok {
			switch {
			case len(r.Header[fieldContentLength]) > 0:
				c.lengths.known++ // net/http merges equal fields into one
			case len(r.TransferEncoding) > 0 && c.lengths.sent.Load() > c.lengths.known:
				w.Header().Set("Connection", "close")
			}
		}
		next.ServeHTTP(w, r)
	})
}
