package wire

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/tools/handlerstest"
)

func TestCallersFarAboveCapAreClosedUnanswered(t *testing.T) {
	t.Parallel()
	s := listenWith(t, Options{MaxConnections: 1})
	old := handlerstest.Dial(t, s.address)
	old.MustAsk(t, handlerstest.Asks("/", "a"), http.StatusOK)
	var last *handlerstest.Line
	handlerstest.Eventually(t, "the log tells of connections that were closed", func() bool {
		last = handlerstest.Dial(t, s.address)
		return strings.Contains(s.log.String(), "connections_exhausted")
	})
	if n, err := last.Read(make([]byte, 1)); err == nil || n != 0 {
		t.Errorf("got %d bytes", n)
	}
	old.MustAsk(t, handlerstest.Asks("/", "a"), http.StatusOK)
}

func TestAPeerIsAMachine(t *testing.T) {
	t.Parallel()
	peer := func(text string) netip.Prefix { return peerOf(&net.TCPAddr{IP: net.ParseIP(text), Port: 1}) }
	first, other := peer("192.0.2.1"), peer("192.0.2.2")
	if first != peer("::ffff:192.0.2.1") || first == other || peer("2001:db8::1") != peer("2001:db8::ffff:2") ||
		peer("2001:db8::1") == peer("2001:db8:0:1::1") || peerOf(&net.UnixAddr{}) == other {
		t.Error("peers are told apart by the wrong part of their address")
	}
}

func refusals() map[string]struct {
	request string
	status  int
} {
	type refusal = struct {
		request string
		status  int
	}
	return map[string]refusal{
		"no protocol":       {"GET /\r\n\r\n", 400},
		"two lengths":       {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
		"two hosts":         {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		"no host":           {"GET / HTTP/1.1\r\n\r\n", 400},
		"a long header":     {"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 2*maxHeaderBytes) + "\r\n\r\n", 431},
		"an unknown coding": {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 501},
		"a later protocol":  {"GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505},
		"an unknown demand": {"GET / HTTP/1.1\r\nHost: a\r\nExpect: a miracle\r\n\r\n", 417},
	}
}

func TestHTTPServerRefusalsAreLogged(t *testing.T) {
	t.Parallel()
	for name, c := range refusals() {
		s := listenWith(t, Options{})
		l := handlerstest.Dial(t, s.address)
		l.MustAsk(t, askRoot, http.StatusOK)
		l.MustAsk(t, c.request, c.status)
		logged := s.log.Last(t)
		if logged["msg"] != "request" || logged["status"] != float64(c.status) || logged["route"] != "" ||
			logged["error"] == "" {
			t.Errorf("%s: logged %v", name, logged)
		}
		if lines := strings.Count(s.log.String(), `"msg":"request"`); lines != 1 {
			t.Errorf("%s: %d lines for one refused request:\n%s", name, lines, s.log)
		}
	}
}

func TestSlowHeadIsToldItWasSlow(t *testing.T) {
	t.Parallel()
	for exchanges, sent := range []string{head, head, head[:5], head[:10], head[:len(head)-4], head[:len(head)-1]} {
		exchanges = min(exchanges, 1)
		synctest.Test(t, func(t *testing.T) {
			log := &handlerstest.Log{}
			logger := slog.New(slog.NewJSONHandler(log, nil))
			caller, accepted := net.Pipe()
			defer serveConn(mirror, Options{Logger: logger, AccessLog: true}, accepted)()
			defer caller.Close()
			l := handlerstest.NewLine(caller)
			for range exchanges {
				l.MustAsk(t, askRoot, http.StatusOK)
			}
			began := time.Now()
			handlerstest.MustWrite(t, caller, sent)
			got, err := l.Answer()
			if err != nil || got.Status != http.StatusRequestTimeout ||
				!strings.Contains(got.Body, `"code":"request_timeout"`) ||
				got.Header.Get("Content-Type") != "application/problem+json" || !got.Closes {
				t.Errorf("after %d exchanges: %+v %v", exchanges, got, err)
			}
			if took := time.Since(began); took > headerTimeout+time.Second {
				t.Errorf("answered after %s", took)
			}
			if rest, err := io.ReadAll(l.Answers); len(rest) != 0 || err != nil {
				t.Errorf("and then %q, %v", rest, err)
			}
			if logged := log.Last(t); logged["status"] != 408.0 {
				t.Errorf("logged %v", logged)
			}
		})
	}
}
