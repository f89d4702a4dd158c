package wire

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pires/go-proxyproto"

	"velocityd/handlers/admission"
	"velocityd/tools/handlerstest"
)

// showCaller answers with the address of the caller, and whether its connection is one too many.
func showCaller(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, r.RemoteAddr, " ", ConnectionOf(r).IsExcess) //nolint:gosec // an address has no markup
}

// version2 is a header of the PROXY protocol, version 2.
func version2(tb testing.TB, command proxyproto.ProtocolVersionAndCommand, client string) string {
	tb.Helper()
	header := &proxyproto.Header{
		Version: 2, Command: command, TransportProtocol: proxyproto.TCPv4,
		SourceAddr:      net.TCPAddrFromAddrPort(netip.MustParseAddrPort(client)),
		DestinationAddr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443},
	}
	if netip.MustParseAddrPort(client).Addr().Is6() {
		header.TransportProtocol, header.DestinationAddr = proxyproto.TCPv6,
			&net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 443}
	}
	text, err := header.Format()
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

func TestClientIsTheOneNamedByProxy(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	plain := listenTo(t, Options{Proxies: admission.ThisMachine()}, showCaller)
	secure := listenTo(t, Options{Proxies: admission.ThisMachine(), TLS: authority.ServerTLS(t)}, showCaller)
	for name, c := range map[string]struct{ header, want string }{
		"version 1":              {"PROXY TCP4 198.51.100.7 192.0.2.1 4711 443\r\n", "198.51.100.7:4711"},
		"version 1, IPv6":        {"PROXY TCP6 2001:db8::7 2001:db8::1 4711 443\r\n", "[2001:db8::7]:4711"},
		"version 1, unknown":     {"PROXY UNKNOWN\r\n", ""},
		"version 1, unknown too": {"PROXY UNKNOWN 198.51.100.7 192.0.2.1 4711 443\r\n", ""},
		"version 2":              {version2(t, proxyproto.PROXY, "198.51.100.7:4711"), "198.51.100.7:4711"},
		"version 2, IPv6":        {version2(t, proxyproto.PROXY, "[2001:db8::7]:4711"), "[2001:db8::7]:4711"},
		"version 2, local":       {version2(t, proxyproto.LOCAL, "198.51.100.7:4711"), ""},
	} {
		for _, isTogether := range []bool{true, false} {
			l := handlerstest.Dial(t, plain.address)
			first := c.header
			if isTogether {
				first += askRoot
			}
			handlerstest.MustWrite(t, l, first)
			if !isTogether {
				handlerstest.MustWrite(t, l, askRoot)
			}
			holdsClient(t, name, l, c.want)
			handlerstest.MustWrite(t, l, askRoot) // the next request of the connection has no header
			holdsClient(t, name, l, c.want)
		}
		conn := handlerstest.Dial(t, secure.address)
		handlerstest.MustWrite(t, conn, c.header)
		l := handlerstest.NewLine(tls.Client(conn.Conn, &tls.Config{RootCAs: authority.Pool, ServerName: "127.0.0.1"}))
		handlerstest.MustWrite(t, l, askRoot)
		holdsClient(t, name+", TLS", l, c.want)
	}
}

// holdsClient fails unless the answer names the client, or if there is none the test itself.
func holdsClient(t *testing.T, name string, l *handlerstest.Line, client string) {
	t.Helper()
	if client == "" {
		client = l.LocalAddr().String()
	}
	if got, err := l.Answer(); err != nil || got.Body != client+" false" {
		t.Errorf("%s: %q %v, want %s", name, got.Body, err, client)
	}
}

func TestProxyNamingNoClientIsClosedAndLogged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sent, logged string }{
		"a request":        {askRoot, "has sent no header of the PROXY protocol"},
		"TLS":              {"\x16\x03\x01\x00\x05hello", "has sent no header of the PROXY protocol"},
		"a malformed line": {"PROXY TCP4 198.51.100.7 192.0.2.1 4711\r\n", "read the header of the PROXY protocol"},
		"a malformed address": {
			"PROXY TCP4 198.51.100.777 192.0.2.1 4711 443\r\n",
			"read the header of the PROXY protocol",
		},
		"a line without end":     {"PROXY " + strings.Repeat("x", 200), "read the header of the PROXY protocol"},
		"an unknown command":     {"\r\n\r\n\x00\r\nQUIT\n\x2f\x11\x00\x0c", "read the header of the PROXY protocol"},
		"nothing, and it leaves": {"", ""},
	} {
		s := listenTo(t, Options{Proxies: admission.ThisMachine()}, showCaller)
		l := handlerstest.Dial(t, s.address)
		handlerstest.MustWrite(t, l, c.sent)
		if c.sent == "" {
			if err := closeWrite(l.Conn); err != nil {
				t.Fatal(err)
			}
		}
		if text, err := io.ReadAll(l); len(text) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: answered %q %v", name, text, err)
		}
		if log := s.log.String(); !strings.Contains(log, c.logged) || (c.logged == "") != (log == "") ||
			strings.Contains(log, "100.777") {
			t.Errorf("%s: logged %s", name, log)
		}
	}
}

func TestWhoIsNoProxyCanNameNobody(t *testing.T) {
	t.Parallel()
	s := listenTo(t, Options{Proxies: admission.Proxies{netip.MustParsePrefix("10.0.0.0/8")}}, showCaller)
	l := handlerstest.Dial(t, s.address)
	handlerstest.MustWrite(t, l, askRoot)
	holdsClient(t, "without a header", l, "")
	handlerstest.Dial(t, s.address).MustAsk(t, "PROXY TCP4 198.51.100.7 192.0.2.1 4711 443\r\n"+askRoot,
		http.StatusBadRequest)
}

func TestASilentProxyKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	s := listenTo(t, Options{Proxies: admission.ThisMachine()}, showCaller)
	for range 8 {
		handlerstest.Dial(t, s.address)
	}
	l := handlerstest.Dial(t, s.address)
	handlerstest.MustWrite(t, l, "PROXY TCP4 198.51.100.7 192.0.2.1 4711 443\r\n"+askRoot)
	holdsClient(t, "beside silent ones", l, "198.51.100.7:4711")
}

func TestBoundsApplyToTheNamedClients(t *testing.T) {
	t.Parallel()
	s := listenTo(t, Options{Proxies: admission.ThisMachine(), MaxConnectionsPerPeer: 1}, showCaller)
	for _, c := range []struct{ client, want string }{
		{"198.51.100.7", "198.51.100.7:1 false"},
		{"198.51.100.8", "198.51.100.8:1 false"},
		{"198.51.100.7", "198.51.100.7:1 true"},
	} {
		l := handlerstest.Dial(t, s.address)
		handlerstest.MustWrite(t, l, "PROXY TCP4 "+c.client+" 192.0.2.1 1 443\r\n"+askRoot)
		if got, err := l.Answer(); err != nil || got.Body != c.want {
			t.Errorf("%q %v, want %s", got.Body, err, c.want)
		}
	}
}

// ofTCP is a connection with an address of TCP.
type ofTCP struct{ net.Conn }

func (ofTCP) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func TestAProxyHasFiveSecondsForItsHeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		caller, accepted := net.Pipe()
		end := serveConn(showCaller, Options{Proxies: admission.ThisMachine()}, ofTCP{accepted})
		began := time.Now()
		handlerstest.MustWrite(t, caller, "P")
		_, err := caller.Read(make([]byte, 1))
		if waited := time.Since(began); !errors.Is(err, io.EOF) || waited != headerTimeout {
			t.Errorf("%v after %v", err, waited)
		}
		end()
		synctest.Wait()
	})
}

// sent is a connection on which these bytes have been sent.
type sent struct {
	ofTCP
	bytes.Reader
}

func (s *sent) Read(p []byte) (int, error)      { return s.Reader.Read(p) }
func (s *sent) SetReadDeadline(time.Time) error { return nil }

// FuzzReadProxied holds that each byte behind a header is read once, and that the client has an address.
func FuzzReadProxied(f *testing.F) {
	for _, seed := range []string{
		"", "PROXY", "PROXY UNKNOWN\r\nGET", "PROXY TCP4 198.51.100.7 192.0.2.1 4711 443\r\nGET / HTTP/1.1\r\n",
		"PROXY TCP6 ::1 ::1 0 0\r\n",
		"\r\n\r\n\x00\r\nQUIT\n", version2(f, proxyproto.PROXY, "198.51.100.7:4711") + "GET",
		version2(f, proxyproto.LOCAL, "[::1]:1"),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := readProxied(t.Context(), &sent{Reader: *bytes.NewReader(text)})
		if err != nil {
			return
		}
		client, ok := c.RemoteAddr().(*net.TCPAddr)
		if !ok || !client.AddrPort().IsValid() {
			t.Fatalf("%q names %v", text, c.RemoteAddr())
		}
		rest, err := io.ReadAll(c)
		if err != nil || !bytes.HasSuffix(text, rest) {
			t.Fatalf("behind the header of %q comes %q %v", text, rest, err)
		}
	})
}

func TestAListenerThatIsClosedEndsItsPreparations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options  Options
		underWay func(*listener) int
	}{
		"headers": {
			Options{Proxies: admission.ThisMachine()},
			func(l *listener) int { return int(l.awaitingHeader.Load()) + l.places.Taken() },
		},
		"handshakes": {
			Options{TLS: handlerstest.NewAuthority(t).ServerTLS(t)}, func(l *listener) int { return l.places.Taken() },
		},
	} {
		inner, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := NewListener(inner, c.options).(*listener)
		ended := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			ended <- err
		}()
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		handlerstest.Eventually(t, name+" are awaited", func() bool { return c.underWay(l) == 1 })
		_ = l.Close()
		if err := <-ended; err == nil {
			t.Errorf("%s: a connection was accepted", name)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Error(err)
		}
		handlerstest.Eventually(t, name+" have ended", func() bool { return c.underWay(l) == 0 })
	}
}

func TestHeaderlessProxiesAreClosedBeyondBound(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := NewListener(inner, Options{Proxies: admission.ThisMachine()}).(*listener)
	defer func() { _ = l.Close() }()
	l.awaitingHeader.Store(mostAwaitingHeader)
	go func() { _, _ = l.Accept() }()
	conn, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
}
