package proxy_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	velocityfront "velocityd/front"
	"velocityd/handlers/handlerstest"
	"velocityd/handlers/wire"
	"velocityd/proxy"
)

// serve serves a proxy as the program does, over TLS, until the end of the test. It returns its address.
func serve(t *testing.T, p *proxy.Proxy, authority *handlerstest.Authority, bounds wire.Options) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bounds.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{authority.Issue(t, "velocityd").Loaded(t)}, NextProtos: []string{"h2", "http/1.1"},
	}
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, listener, bounds, proxy.Stop{}) }()
	t.Cleanup(func() {
		end()
		<-served
	})
	return listener.Addr().String()
}

// pages answers with a page longer than all buffers on its way, and knows how many requests it has at once.
type pages struct{ now, most atomic.Int64 }

func (a *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/login" {
		return
	}
	a.most.Store(max(a.most.Load(), a.now.Add(1)))
	defer a.now.Add(-1)
	_, _ = w.Write(make([]byte, 8<<20))
	<-r.Context().Done() // a page is taken when its end is
}

// askDeafly sends so many requests for a page on one connection of HTTP/2, of whose answers nothing but the heads may come. It
// returns how many are refused on the connection, and by 503, when all but those that are held have an answer.
func askDeafly(t *testing.T, address string, authority *handlerstest.Authority, asked, held int) (refused, busy int) {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: authority.Pool, ServerName: "velocityd", NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for i := range asked {
		var head bytes.Buffer
		encoder := hpack.NewEncoder(&head)
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "a"}, {":path", "/page"}} {
			_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		ask := http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: head.Bytes(), EndStream: true, EndHeaders: true}
		if err := framer.WriteHeaders(ask); err != nil {
			t.Fatal(err)
		}
	}
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for good := 0; refused+busy < asked-held || good < held; {
		frame, err := framer.ReadFrame()
		switch f := frame.(type) {
		case nil:
			t.Fatalf("after %d refusals, %d pages and %d times 503: %v", refused, good, busy, err)
		case *http2.RSTStreamFrame:
			refused++
		case *http2.MetaHeadersFrame:
			if f.PseudoValue("status") == "503" {
				busy++
			} else {
				good++
			}
		}
	}
	return refused, busy
}

func TestStreamsThatNobodyReadsLeaveLoginsTheirPlaces(t *testing.T) {
	t.Parallel()
	const perConnection = wire.HTTP2Streams
	authority, app := handlerstest.NewAuthority(t), &pages{}
	server := httptest.NewServer(app)
	t.Cleanup(server.Close)
	o := newOptions(t, server.URL)
	o.MaxRequests = 4 * perConnection
	address := serve(t, proxy.New(o), authority, wire.Options{})
	const asked = 250
	for i, held := range []int{perConnection, perConnection, 0} { // one client has half of the places
		refused, busy := askDeafly(t, address, authority, asked, held)
		if wantBusy := perConnection - held; busy < wantBusy || refused > asked-perConnection {
			t.Errorf("connection %d: %d refused, %d times 503", i, refused, busy)
		}
	}
	if most := app.most.Load(); most > int64(o.MaxRequests/2) {
		t.Errorf("the application had %d requests at once, want %d", most, o.MaxRequests/2)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool, ServerName: "velocityd", MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	for path, want := range map[string]int{"/login": http.StatusOK, "/page": http.StatusServiceUnavailable} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+path, strings.NewReader("user=alice"))
		r.Header.Set("Content-Type", ofForm)
		response, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, response.StatusCode, want)
		}
	}
}

func TestAnotherClientBehindAProxyHasPlacesLeft(t *testing.T) {
	t.Parallel()
	f := stand(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			<-r.Context().Done()
		}
	}), func(o *proxy.Options) {
		o.MaxRequests, o.Proxies = 2, velocityfront.Proxies{netip.MustParsePrefix("127.0.0.0/8")}
	})
	ctx, leave := context.WithCancel(t.Context())
	var held sync.WaitGroup
	held.Go(func() {
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/held", nil)
		r.Header.Set("X-Forwarded-For", "192.0.2.1")
		if response, err := http.DefaultClient.Do(r); err == nil {
			_ = response.Body.Close()
		}
	})
	for f.send(t, http.MethodGet, "/", "", "X-Forwarded-For", "192.0.2.1").status != http.StatusServiceUnavailable {
		runtime.Gosched()
	}
	if r := f.send(t, http.MethodGet, "/", "", "X-Forwarded-For", "192.0.2.2"); r.status != http.StatusOK {
		t.Errorf("another client: %d", r.status)
	}
	leave()
	held.Wait()
	for f.send(t, http.MethodGet, "/", "", "X-Forwarded-For", "192.0.2.1").status != http.StatusOK { // its place is free again
		runtime.Gosched()
	}
}

func TestAConnectionTooManyIsToldSo(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	server := httptest.NewServer(&application{})
	t.Cleanup(server.Close)
	address := serve(t, proxy.New(newOptions(t, server.URL)), authority, wire.Options{MaxConnectionsPerPeer: 1})
	for i, want := range []string{"HTTP/1.1 401 ", "HTTP/1.1 503 "} {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: authority.Pool, ServerName: "velocityd"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		got := make([]byte, len(want))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
			t.Errorf("connection %d: %q, %v, want %q", i, got, err, want)
		}
	}
}

// timed is an answer that notes its deadlines, and the body of a request that notes those of its parts.
type timed struct {
	httptest.ResponseRecorder
	read, write time.Time
	faults      []string
}

func (w *timed) SetReadDeadline(until time.Time) error  { w.read = until; return nil }
func (w *timed) SetWriteDeadline(until time.Time) error { w.write = until; return nil }

func (w *timed) hold(what string, until time.Time) {
	if left := time.Until(until); left <= 0 || left > 2*time.Minute {
		w.faults = append(w.faults, fmt.Sprintf("%s: %s are left", what, left))
	}
}

func (w *timed) Write(p []byte) (int, error) {
	w.hold("a part of the answer", w.write)
	return w.ResponseRecorder.Write(p)
}

func (w *timed) FlushError() error { return nil }

// Read implements io.Reader.
func (w *timed) Read(p []byte) (int, error) {
	w.hold("a part of the body", w.read)
	p[0] = 'x'
	return 1, io.EOF
}

func TestEachPartOfARequestThatPassesHasADeadline(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&application{})
	t.Cleanup(server.Close)
	p := proxy.New(newOptions(t, server.URL))
	for _, path := range []string{"/upload", "/login"} {
		w := &timed{ResponseRecorder: *httptest.NewRecorder()}
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("user=alice"))
		if path == "/upload" {
			r.Body = io.NopCloser(w)
			r.ContentLength = -1
		}
		p.ServeHTTP(w, r)
		w.hold("the end of the answer", w.write)
		if w.Code != http.StatusUnauthorized || len(w.faults) > 0 {
			t.Errorf("%s: %d, %q", path, w.Code, w.faults)
		}
	}
}
