package handlers

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/handlers/handlerstest"
	"velocityd/handlers/wire"
	"velocityd/service"
)

// Bounds of package wire that the tests here wait for.
const (
	http2Streams  = 16
	http2Window   = 64 << 10
	bodyTimeout   = 10 * time.Second
	answerTimeout = 5 * time.Second
)

// servedPipe returns a connection with a server, and what ends both.
func servedPipe(work time.Duration) (caller net.Conn, end func()) {
	limiter := service.NewLimiter(fixed(service.Decision{CheckedAt: service.At(time.Now())}), service.LimiterOptions{Timeout: work})
	caller, accepted := net.Pipe()
	return caller, serveConn(New(Options{Limiter: limiter}), work, accepted)
}

// serveConn serves requests of one connection, and returns what ends that.
func serveConn(handler http.Handler, work time.Duration, accepted net.Conn) (end func()) {
	pipes := handlerstest.Pipes(make(chan net.Conn, 1))
	server := wire.NewServer(handler, work, nil)
	go func() { _ = server.Serve(wire.NewListener(pipes, wire.Options{})) }()
	pipes <- accepted
	return func() {
		accepted.Close()
		close(pipes)
		_ = server.Close()
	}
}

func TestASlowBodyIsToldThatItWasSlow(t *testing.T) {
	t.Parallel()
	const head = "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct {
		sent string
		took time.Duration
	}{
		"small":   {head + "Content-Length: 99\r\n\r\n{", bodyTimeout},
		"chunked": {head + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", bodyTimeout},
		"large":   {head + fmt.Sprintf("Content-Length: %d\r\n\r\n{", smallBody+1), bodyPace},
		"large, in all": {head + "Transfer-Encoding: chunked\r\n\r\n" +
			fmt.Sprintf("%x\r\n%s\r\n", smallBody+1, strings.Repeat(" ", smallBody+1)), bodyPace},
	} {
		synctest.Test(t, func(t *testing.T) {
			caller, end := servedPipe(time.Minute)
			defer end()
			began := time.Now()
			handlerstest.MustWrite(t, caller, c.sent)
			answer, err := http.ReadResponse(bufio.NewReader(caller), nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			body, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			took := time.Since(began)
			if answer.StatusCode != http.StatusRequestTimeout || !answer.Close || !strings.Contains(string(body), `"code":"request_timeout"`) {
				t.Errorf("%s: %d %s, closes: %t", name, answer.StatusCode, body, answer.Close)
			}
			if took > c.took+time.Second || took < c.took {
				t.Errorf("%s: answered after %s, want %s", name, took, c.took)
			}
		})
	}
}
