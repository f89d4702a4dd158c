package proxy_test

import (
	"bufio"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/net/websocket"

	"velocityd/doors/proxy"
	velocityfront "velocityd/handlers/admission"
	"velocityd/service"
)

func TestAWebsocketPasses(t *testing.T) {
	t.Parallel()
	f := stand(t, websocket.Handler(func(conn *websocket.Conn) { _, _ = io.Copy(conn, conn) }))
	conn, err := websocket.Dial(strings.Replace(f.url, "http", "ws", 1)+"/live", "", f.url)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two"} {
		var got string
		if err := websocket.Message.Send(conn, text); err != nil {
			t.Fatal(err)
		}
		if err := websocket.Message.Receive(conn, &got); err != nil || got != text {
			t.Errorf("got %q (%v), want %q", got, err, text)
		}
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	f.awaitLog(t, `"status":101`)
}

func TestAnotherProtocolThanWebsocketDoesNotPass(t *testing.T) {
	t.Parallel()
	f := stand(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%q %q %q", r.Header["Upgrade"], r.Header["Connection"], r.Header["Http2-Settings"]) //nolint:gosec // for this test alone
	}))
	r := f.send(t, http.MethodGet, "/", "", "Upgrade", "h2c", "Connection", "Upgrade, HTTP2-Settings", "HTTP2-Settings",
		"AAMAAABkAARAAAAAAAIAAAAA")
	if r.body != "[] [] []" {
		t.Errorf("the application got %s", r.body)
	}
}

// TestAStreamPassesAsItComes holds that each event is there before the application sends the next one.
func TestAStreamPassesAsItComes(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	f := stand(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		if length := r.URL.Query().Get("length"); length != "" {
			w.Header().Set("Content-Length", length)
		}
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n", i)
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	}))
	for _, query := range []string{"type=text/event-stream", "type=text/plain&length=24"} {
		response, err := http.Get(f.url + "/events?" + query)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		for i := range 3 {
			if want := fmt.Sprint("data: ", i); !lines.Scan() || lines.Text() != want {
				t.Errorf("%s: got %q, want %q", query, lines.Text(), want)
			}
			next <- struct{}{}
		}
	}
}

func TestTrailersPassBothWays(t *testing.T) {
	t.Parallel()
	f := stand(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.Copy(w, r.Body)
		w.Header().Set("X-Sum", r.Trailer.Get("X-Sum")+" seen")
	}))
	r, err := http.NewRequest(http.MethodPost, f.url+"/upload", io.MultiReader(strings.NewReader("body")))
	if err != nil {
		t.Fatal(err)
	}
	r.Trailer = http.Header{"X-Sum": {"42"}}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if string(body) != "body" || response.Trailer.Get("X-Sum") != "42 seen" {
		t.Errorf("got %q with the trailer %q", body, response.Trailer)
	}
}

// TestApplicationAsksForHeldBackBody holds that a body goes out only if the application wants it.
func TestApplicationAsksForHeldBackBody(t *testing.T) {
	t.Parallel()
	f := stand(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refuse" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.Copy(w, r.Body)
	}))
	for path, want := range map[string]string{"/take": "HTTP/1.1 100 Continue", "/refuse": "HTTP/1.1 403 Forbidden"} {
		line, err := f.raw(
			t, "PUT "+path+" HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n").ReadString('\n')
		if err != nil || strings.TrimSpace(line) != want {
			t.Errorf("%s: got %q (%v), want %q", path, line, err, want)
		}
	}
}

func TestPathQueryAndHostPassAsTheyWere(t *testing.T) {
	t.Parallel()
	f := stand(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.RequestURI, " ", r.Host) //nolint:gosec // for this test alone
	}))
	for _, uri := range []string{"/a%2Fb//c/../d;x=1?y=%zz;z&a=b+c", "/%6Cogin/x", "/?", "/x?%"} {
		response, err := http.ReadResponse(f.raw(t, "GET "+uri+" HTTP/1.1\r\nHost: app.example\r\n\r\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if got, _ := io.ReadAll(response.Body); string(got) != uri+" app.example" {
			t.Errorf("%s became %s", uri, got)
		}
	}
}

func TestAnAddressWithoutAPathIsRefused(t *testing.T) {
	t.Parallel()
	app := &application{}
	f := stand(t, app)
	for _, target := range []string{"CONNECT x:80", "POST http:login", "POST x:y"} {
		if line, _ := f.raw(t, target+" HTTP/1.1\r\nHost: x\r\n\r\n").ReadString('\n'); !strings.HasPrefix(
			line, "HTTP/1.1 400 ") {
			t.Errorf("%s: %q", target, line)
		}
	}
	if n := len(app.seen()); n > 0 {
		t.Errorf("the application has seen %d of them", n)
	}
}

func TestTheApplicationIsToldWhoAsks(t *testing.T) {
	t.Parallel()
	var got http.Header
	app := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	plain := stand(t, app)
	behind := stand(
		t, app, func(o *proxy.Options) { o.Proxies = velocityfront.Proxies{netip.MustParsePrefix("127.0.0.0/8")} })
	said := []string{
		"X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "app.example", "X-Forwarded-Port",
		"443", "X_Forwarded_For", "192.0.2.9",
		"X-Real-Ip", "192.0.2.1", "X-Original-Url", "/login", "X_Rewrite_URL", "/login", "X-Other", "kept",
	}
	host := strings.TrimPrefix(plain.url, "http://")
	for name, c := range map[string]struct {
		f       *front
		headers []string
		want    http.Header
	}{
		"what a client says is removed": {plain, said, http.Header{
			"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {host}, "X-Other": {"kept"},
		}},
		"what a proxy says is kept": {behind, said, http.Header{
			"X-Forwarded-For": {"192.0.2.1, 127.0.0.1"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"app.example"},
			"X-Forwarded-Port": {"443"}, "X-Real-Ip": {"192.0.2.1"}, "X-Other": {"kept"},
		}},
		"Forwarded becomes X-Forwarded-For": {
			behind, []string{"Forwarded", "for=192.0.2.1", "X-Forwarded-Host", "app.example"}, http.Header{
				"X-Forwarded-For": {"192.0.2.1, 127.0.0.1"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {"app.example"},
			},
		},
	} {
		c.f.send(t, http.MethodGet, "/", "", c.headers...)
		delete(got, "User-Agent")
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: the application got\n%q, want\n%q", name, got, c.want)
		}
	}
	if r := behind.try(t, "alice", "right", "X-Forwarded-For", "192.0.2.1", "Forwarded",
		"for=192.0.2.2"); r.status != http.StatusBadRequest {
		t.Errorf("a login of two addresses: %d", r.status)
	}
	behind.try(t, "alice", "right", "X-Forwarded-For", "198.51.100.1, 192.0.2.1")
	if n := len(behind.service.Txns(service.Bucket{ZoneID: addressZone, Key: "192.0.2.1"})); n != 1 {
		t.Errorf("%d attempts of the client's address, want 1", n)
	}
}

func TestAClientSpeaksHTTP2WithTLS(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto, " ", r.Header.Get("X-Forwarded-Proto")) //nolint:gosec // for this test alone
	}))
	t.Cleanup(app.Close)
	own := httptest.NewUnstartedServer(proxy.New(newOptions(t, app.URL)))
	own.EnableHTTP2 = true
	own.StartTLS()
	t.Cleanup(own.Close)
	response, err := own.Client().PostForm(own.URL+"/login", url.Values{"user": {"alice"}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); response.ProtoMajor != 2 || string(body) != "HTTP/1.1 https" {
		t.Errorf("%s, and the application answers %s", response.Proto, body)
	}
}

func TestAnApplicationsCertificateIsVerified(t *testing.T) {
	t.Parallel()
	app := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(app.Close)
	set := func(o *proxy.Options) { o.Upstream, _ = url.Parse(app.URL) }
	if r := stand(t, nil, set).send(t, http.MethodGet, "/", ""); r.status != http.StatusBadGateway {
		t.Errorf("by an unknown CA: %d", r.status)
	}
	roots := x509.NewCertPool()
	roots.AddCert(app.Certificate())
	known := stand(t, nil, set, func(o *proxy.Options) { o.Roots = roots })
	if r := known.send(t, http.MethodGet, "/", ""); r.status != http.StatusOK {
		t.Errorf("by a known CA: %d", r.status)
	}
}
