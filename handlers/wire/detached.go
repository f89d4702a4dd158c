package wire

import (
	"net/http"
	"sync/atomic"
)

// From the end of a body to the answer net/http watches for the caller to leave: it reads one byte, in another
// goroutine, which a deadline ends. Checks do not need that: they are finished even if their callers leave
// (service.Limiter, handlers.server.change). Without it, 512 callers get 1.10 times as many checks a second.

// detached says that a connection of HTTP/1 has a request which is finished whether or not its caller waits: one with a
// body of known length. A chunked body may be read byte by byte.
type detached struct{ is atomic.Bool }

// begin says that a handler gets a request.
func (d *detached) begin(r *http.Request) { d.is.Store(r.ContentLength > 0) }

// end says that the caller's leaving counts again.
func (d *detached) end() { d.is.Store(false) }

// skips says that a read into p is that of net/http's watch, and ends at once, with nothing.
func (d *detached) skips(p []byte) bool { return len(p) == 1 && d.is.Load() }
