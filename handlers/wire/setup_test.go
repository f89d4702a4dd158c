package wire

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"velocityd/tools/handlerstest"
)

// mirror answers with the body of the request.
func mirror(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestTimeout)
		return
	}
	SetAnswerDeadline(w)
	_, _ = w.Write(body)
}

// listening is a server of mirror on a real socket.
type listening struct {
	address string
	log     *handlerstest.Log
}

func listenWith(t *testing.T, o Options) *listening {
	t.Helper()
	return listenTo(t, o, mirror)
}

func listenTo(t *testing.T, o Options, handler http.HandlerFunc) *listening {
	t.Helper()
	s := &listening{log: &handlerstest.Log{}}
	o.Logger, o.AccessLog = slog.New(slog.NewJSONHandler(s.log, nil)), true
	server := NewServer(handler, time.Minute, o.Logger)
	s.address = handlerstest.Serve(t, func(inner net.Listener) error { return server.Serve(NewListener(inner, o)) },
		server.Close)
	return s
}

const (
	head    = "POST / HTTP/1.1\r\nHost: a\r\n"
	askRoot = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
)

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
