package wire

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/tools/handlerstest"
)

func TestSlowAndSilentCallersAreCutOff(t *testing.T) {
	t.Parallel()
	const body = "hello, velocityd"
	header := strings.TrimSuffix(handlerstest.Asks("/", body), body)
	for name, test := range map[string]struct {
		sent         string
		deaf         bool          // does not read
		first, later time.Duration // on a new connection, and after an exchange
	}{
		"silent":             {first: headerTimeout, later: idleTimeout},
		"slow in the header": {sent: header[:20], first: headerTimeout, later: headerTimeout},
		"slow in the body":   {sent: header + body[:10], first: bodyTimeout, later: bodyTimeout},
		"silent afterwards":  {sent: header + body, first: idleTimeout, later: idleTimeout},
		"deaf":               {sent: header + body, deaf: true, first: answerTimeout, later: answerTimeout},
	} {
		for exchanges := range 4 {
			synctest.Test(t, func(t *testing.T) {
				caller, accepted := net.Pipe()
				defer serveConn(mirror, Options{}, accepted)()
				l := handlerstest.NewLine(caller)
				want := test.first
				for range exchanges {
					want = test.later
					l.MustAsk(t, header+body, http.StatusOK)
					time.Sleep(idleTimeout / 3) // of the bubble's time
				}
				began := time.Now()
				handlerstest.MustWrite(t, caller, test.sent)
				if test.sent == "" && exchanges > 0 {
					want -= idleTimeout / 3 // the silence has lasted that long
				}
				if test.deaf {
					time.Sleep(want + 1) // now the service has given up
				}
				_, err := io.Copy(io.Discard, l.Answers)
				if took := time.Since(began); err != nil || took > want+1 || took < want {
					t.Errorf("%s, after %d exchanges: cut off after %s, want %s; %v", name, exchanges, took, want, err)
				}
			})
		}
	}
}

// countedReads is a connection that knows how many calls of Read are under way.
type countedReads struct {
	net.Conn
	underWay atomic.Int32
}

func (c *countedReads) Read(p []byte) (int, error) {
	c.underWay.Add(1)
	defer c.underWay.Add(-1)
	return c.Conn.Read(p)
}

func TestKnownLengthBodiesStartNoDepartureWatch(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		request string
		watched int32
	}{
		"a known length":    {request: handlerstest.Asks("/", "alice")},
		"an unknown length": {request: handlerstest.InChunks("/", "alice"), watched: 1},
		"no body":           {request: askRoot, watched: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			caller, accepted := net.Pipe()
			conn := &countedReads{Conn: accepted}
			look := func() {
				synctest.Wait() // now all others wait for something
				if reads := conn.underWay.Load(); reads != test.watched {
					t.Errorf("%s: %d reads while it is worked on, want %d", name, reads, test.watched)
				}
			}
			defer serveConn(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				look()
			}, Options{}, conn)()
			asking := handlerstest.NewLine(caller)
			for range 3 {
				if _, err := asking.Ask(test.request); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		})
	}
}
