package handlers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
)

// pipeListener accepts the ends of pipes, whose deadlines are of a synctest
// bubble's time.
type pipeListener struct{ accepted chan net.Conn }

func (l pipeListener) Accept() (net.Conn, error) {
	if c, ok := <-l.accepted; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l pipeListener) Close() error { return nil }

func (l pipeListener) Addr() net.Addr { return &net.UnixAddr{} }

func TestSlowAndSilentCallersAreCutOff(t *testing.T) {
	t.Parallel()
	const work = time.Minute
	body := bucketJSON(1, "alice")
	header := fmt.Sprintf("POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
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
				caller, end := servedPipe(work)
				defer end()
				answers := bufio.NewReader(caller)
				want := test.first
				for range exchanges {
					want = test.later
					mustWrite(t, caller, header+body)
					answer, err := http.ReadResponse(answers, nil)
					if err != nil || answer.StatusCode != http.StatusOK {
						t.Fatalf("%s: %+v, %v", name, answer, err)
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
					time.Sleep(idleTimeout / 3) // of the bubble's time
				}
				began := time.Now()
				mustWrite(t, caller, test.sent)
				if test.sent == "" && exchanges > 0 {
					want -= idleTimeout / 3 // the silence has lasted that long
				}
				if test.deaf {
					time.Sleep(want + 1) // now the service has given up
				}
				_, err := io.Copy(io.Discard, answers)
				if took := time.Since(began); err != nil || took > want+1 || took < want {
					t.Errorf("%s, after %d exchanges: cut off after %s, want %s; %v", name, exchanges, took, want, err)
				}
			})
		}
	}
}

// servedPipe returns a connection with a server, and what ends both.
func servedPipe(work time.Duration) (caller net.Conn, end func()) {
	limiter := service.NewLimiter(fixed(service.Decision{CheckedAt: time.Now()}), work)
	caller, accepted := net.Pipe()
	return caller, serveConn(New(Options{Limiter: limiter}), work, accepted)
}

// serveConn serves requests of one connection, and returns what ends that.
func serveConn(handler http.Handler, work time.Duration, accepted net.Conn) (end func()) {
	pipes := pipeListener{make(chan net.Conn, 1)}
	server := NewServer(handler, work, nil)
	go func() { _ = server.Serve(NewListener(pipes, ListenerOptions{})) }()
	pipes.accepted <- accepted
	return func() {
		accepted.Close()
		close(pipes.accepted)
		_ = server.Close()
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

func TestNobodyWatchesForCallersWithABodyOfKnownLengthToLeave(t *testing.T) {
	t.Parallel()
	body := bucketJSON(1, "alice")
	const head = " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
	for name, test := range map[string]struct {
		request string
		watched int32
	}{
		"a check":                   {request: fmt.Sprintf("POST /v1/check%sContent-Length: %d\r\n\r\n%s", head, len(body), body)},
		"a check of unknown length": {request: fmt.Sprintf("POST /v1/check%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head, len(body), body), watched: 1},
		"a look-up":                 {request: "GET /v1/zones" + head + "\r\n", watched: 1},
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
			limiter := service.NewLimiter(storeFunc(func(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
				look()
				return fixed(service.Decision{CheckedAt: time.Now()})(ctx, checks)
			}), time.Minute)
			defer serveConn(New(Options{Limiter: limiter, Reader: &slowStore{begun: look}}), time.Minute, conn)()
			asking := &line{Conn: caller, answers: bufio.NewReader(caller)}
			for range 3 {
				if _, _, _, err := asking.ask(test.request); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		})
	}
}

func mustWrite(t *testing.T, to io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(to, text); err != nil {
		t.Fatal(err)
	}
}
