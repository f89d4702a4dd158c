package handlerstest

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Line is a connection of a test's own, on which HTTP/1 is spoken.
type Line struct {
	net.Conn
	Answers *bufio.Reader
}

// NewLine returns the line of a connection.
func NewLine(conn net.Conn) *Line { return &Line{conn, bufio.NewReader(conn)} }

// Answer is an answer, read in full.
type Answer struct {
	Status int
	Header http.Header
	Body   string
	Closes bool // its connection
}

// Ask asks and returns the answer. Its error is that of a connection that was closed.
func (l *Line) Ask(request string) (Answer, error) {
	if _, err := io.WriteString(l, request); err != nil {
		return Answer{}, err
	}
	return l.Answer()
}

// Answer returns the next answer.
func (l *Line) Answer() (Answer, error) {
	answer, err := http.ReadResponse(l.Answers, nil)
	if err != nil {
		return Answer{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return Answer{answer.StatusCode, answer.Header, string(text), answer.Close}, err
}

// MustAsk asks, and fails unless the answer has a status.
func (l *Line) MustAsk(tb testing.TB, request string, want int) Answer {
	tb.Helper()
	got, err := l.Ask(request)
	if err != nil || got.Status != want {
		tb.Fatalf("%q: %+v %v, want %d", request, got, err, want)
	}
	return got
}

// Asks is a request with a body.
func Asks(path, body string, headers ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
		path, len(body), strings.Join(append(headers, ""), "\r\n"), body)
}

// InChunks is Asks without a length.
func InChunks(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: "+
		"chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n",
		path, len(body), body)
}

// Dial returns a new connection, which ends with the test.
func Dial(tb testing.TB, address string) *Line {
	tb.Helper()
	conn, err := new(net.Dialer).DialContext(tb.Context(), "tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return NewLine(conn)
}

// DialTLS is Dial with TLS, by a caller that trusts the authority and speaks HTTP/1 alone.
func DialTLS(tb testing.TB, address string, authority *Authority) *Line {
	tb.Helper()
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: authority.Pool}}).DialContext(tb.Context(), "tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return NewLine(conn)
}

// Serve has a server serve a socket on the loopback until the test ends.
func Serve(tb testing.TB, serve func(net.Listener) error, end func() error) (address string) {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = serve(listener)
	}()
	tb.Cleanup(func() {
		_ = end()
		<-served
	})
	return listener.Addr().String()
}
