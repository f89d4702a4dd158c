package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/doors/proxy"
	velocityfront "velocityd/handlers/admission"
	"velocityd/handlers/wire"
)

func TestFullClientLeavesPlacesToLoginsAndOthers(t *testing.T) {
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
	if r := f.try(t, "alice", "right", "X-Forwarded-For", "192.0.2.1"); r.status != http.StatusOK {
		t.Errorf("a login of the same client: %d", r.status)
	}
	leave()
	held.Wait()
	// Its place is free again.
	for f.send(t, http.MethodGet, "/", "", "X-Forwarded-For", "192.0.2.1").status != http.StatusOK {
		runtime.Gosched()
	}
}

func TestAConnectionTooManyIsToldSo(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&application{})
	t.Cleanup(server.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		bounds, stop := wire.Options{MaxConnectionsPerPeer: 1}, proxy.Stop{Timeout: time.Minute}
		served <- proxy.New(newOptions(t, server.URL)).Serve(ctx, listener, bounds, stop)
	}()
	for i, want := range []string{"HTTP/1.1 401 ", "HTTP/1.1 503 "} {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		got := make([]byte, len(want))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
			t.Errorf("connection %d: %q, %v, want %q", i, got, err, want)
		}
	}
	end()
	if err := <-served; err != nil {
		t.Error(err)
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

func TestEachPartOfPassingRequestHasDeadline(t *testing.T) {
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
