package handlers

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/handlers/wire"
	"velocityd/service"
	"velocityd/tools/handlerstest"
)

// Bounds of package wire that the tests here wait for.
const (
	http2Streams  = 16
	http2Window   = 64 << 10
	bodyTimeout   = 10 * time.Second
	answerTimeout = 5 * time.Second
)

// piped is a server on pipes, in the time of a bubble.
type piped struct {
	pipes  handlerstest.Pipes
	server *http.Server
}

// servePipes begins to serve.
func servePipes(handler http.Handler, o wire.Options) *piped {
	p := &piped{make(handlerstest.Pipes, 1), wire.NewServer(handler, time.Minute, nil)}
	go func() { _ = p.server.Serve(wire.NewListener(p.pipes, o)) }()
	return p
}

// dial returns a new connection.
func (p *piped) dial() *handlerstest.Line {
	caller, accepted := net.Pipe()
	p.pipes <- accepted
	return handlerstest.NewLine(caller)
}

// end ends the server. For a while net/http lingers with callers that it has cut off.
func (p *piped) end() {
	close(p.pipes)
	_ = p.server.Close()
	time.Sleep(time.Second) // of the bubble's time
}

func TestSlowBodyIsToldItWasSlow(t *testing.T) {
	t.Parallel()
	const head = "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct {
		sent string
		took time.Duration
	}{
		"small":   {head + "Content-Length: 99\r\n\r\n{", bodyTimeout},
		"chunked": {head + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", bodyTimeout},
		"large":   {head + fmt.Sprintf("Content-Length: %d\r\n\r\n{", smallBody+1), largeBodyTimeout},
		"large, in all": {head + "Transfer-Encoding: chunked\r\n\r\n" +
			fmt.Sprintf("%x\r\n%s\r\n", smallBody+1, strings.Repeat(" ", smallBody+1)), largeBodyTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			limiter := service.NewLimiter(fixed(service.Decision{CheckedAt: service.At(time.Now())}),
				service.LimiterOptions{Timeout: time.Minute})
			pipes := servePipes(New(Options{Limiter: limiter}), wire.Options{})
			defer pipes.end()
			l, began := pipes.dial(), time.Now()
			handlerstest.MustWrite(t, l, c.sent)
			got, err := l.Answer()
			took := time.Since(began)
			if err != nil || got.Status != http.StatusRequestTimeout || !got.Closes ||
				!strings.Contains(got.Body, `"code":"request_timeout"`) {
				t.Errorf("%s: %+v %v", name, got, err)
			}
			if took > c.took+time.Second || took < c.took {
				t.Errorf("%s: answered after %s, want %s", name, took, c.took)
			}
		})
	}
}
