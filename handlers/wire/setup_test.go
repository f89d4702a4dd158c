package wire

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"velocityd/handlers/handlerstest"
)

// mirror answers with the body of the request.
func mirror(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestTimeout)
		return
	}
	Hurry(w)
	_, _ = w.Write(body)
}

// listening is a server of mirror on a real socket.
type listening struct {
	address string
	log     *logLines
}

func listenWith(t *testing.T, o Options) *listening {
	t.Helper()
	return listenTo(t, o, mirror)
}

func listenTo(t *testing.T, o Options, handler http.HandlerFunc) *listening {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &listening{address: inner.Addr().String(), log: &logLines{}}
	o.Logger, o.AccessLog = slog.New(slog.NewJSONHandler(s.log, nil)), true
	server := NewServer(handler, time.Minute, o.Logger)
	served := make(chan struct{})
	listener := NewListener(inner, o)
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return s
}

// line is a connection of a test's own, on which HTTP/1 is spoken.
type line struct {
	net.Conn
	answers *bufio.Reader
}

func newLine(conn net.Conn) *line { return &line{conn, bufio.NewReader(conn)} }

func (s *listening) dial(t *testing.T) *line {
	t.Helper()
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return newLine(conn)
}

func (s *listening) dialTLS(t *testing.T, authority *handlerstest.Authority) *line {
	t.Helper()
	conn, err := tls.Dial("tcp", s.address, &tls.Config{RootCAs: authority.Pool})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return newLine(conn)
}

// reply is an answer, read in full.
type reply struct {
	status      int
	contentType string
	body        string
	closes      bool // its connection
}

// ask asks and returns the answer. Its error is that of a connection that was closed.
func (l *line) ask(request string) (reply, error) {
	if _, err := io.WriteString(l, request); err != nil {
		return reply{}, err
	}
	return l.answer()
}

func (l *line) answer() (reply, error) {
	answer, err := http.ReadResponse(l.answers, nil)
	if err != nil {
		return reply{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return reply{status: answer.StatusCode, contentType: answer.Header.Get("Content-Type"), body: string(text), closes: answer.Close}, err
}

func (l *line) mustAsk(t *testing.T, request string, want int) reply {
	t.Helper()
	got, err := l.ask(request)
	if err != nil || got.status != want {
		t.Fatalf("%q: %+v %v, want %d", request, got, err, want)
	}
	return got
}

const (
	head    = "POST / HTTP/1.1\r\nHost: a\r\n"
	askRoot = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
)

// asks is a request with a body.
func asks(body string) string {
	return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
}

// inChunks is asks without a length.
func inChunks(body string) string {
	return fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head, len(body), body)
}

// serveConn serves requests of one connection, and returns what ends that.
func serveConn(handler http.HandlerFunc, o Options, accepted net.Conn) (end func()) {
	pipes := handlerstest.Pipes(make(chan net.Conn, 1))
	server := NewServer(handler, time.Minute, nil)
	go func() { _ = server.Serve(NewListener(pipes, o)) }()
	pipes <- accepted
	return func() {
		accepted.Close()
		close(pipes)
		_ = server.Close()
	}
}

// logLines is a log of lines in JSON.
type logLines struct{ handlerstest.Log }

// last returns the newest line.
func (l *logLines) last(t *testing.T) map[string]any {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(l.String()), "\n")
	var line map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &line); err != nil {
		t.Fatalf("log line %q: %v", lines[len(lines)-1], err)
	}
	return line
}
