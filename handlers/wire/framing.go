package wire

import (
	"bytes"
	"net/http"
	"sync/atomic"
)

// Programs disagree on the length of a request with both Content-Length and
// Transfer-Encoding, so the next request on its connection may have been smuggled in.
// RFC 9112, section 6.1, wants the connection closed after the answer. net/http reads
// such a request as chunked, hides its Content-Length, and keeps the connection. So the
// connection itself looks for the field, above TLS. HTTP/2 has no such requests: there a
// body ends where its frames do.

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

// isAmbiguous reports whether a chunked request of HTTP/1 may have had a length as
// well: more fields Content-Length were received on its connection than its other
// requests had. It must be called once for each request.
func (w *lengthWatch) isAmbiguous(r *http.Request) bool {
	if len(r.Header["Content-Length"]) > 0 {
		w.known++ // net/http merges equal fields into one
		return false
	}
	return len(r.TransferEncoding) > 0 && w.sent.Load() > w.known
}
