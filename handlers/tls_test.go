package handlers

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/handlers/handlerstest"
)

// tlsSettings are settings of a server whose certificate an authority has signed.
func tlsSettings(t *testing.T, authority *handlerstest.Authority) *tls.Config {
	t.Helper()
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{authority.Issue(t, "velocityd").Loaded(t)}, NextProtos: []string{"h2", "http/1.1"},
		ClientCAs: authority.Pool, ClientAuth: tls.VerifyClientCertIfGiven,
	}
}

// caller returns a client that trusts the authority. It speaks HTTP/2 if it can.
func caller(t *testing.T, config *tls.Config) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// dialTLS returns a connection on which HTTP/1 is spoken.
func (s *listening) dialTLS(t *testing.T, authority *handlerstest.Authority) *line {
	t.Helper()
	conn, err := tls.Dial("tcp", s.address, &tls.Config{RootCAs: authority.Pool})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &line{Conn: conn, answers: bufio.NewReader(conn)}
}

func TestHTTP2IsSpokenOverTLS(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	s := listenWith(t, nil, ListenerOptions{TLS: tlsSettings(t, authority), MaxConnectionsPerPeer: http2Streams}, func(o *Options) {
		o.MaxBodyBytes, o.AllowedHosts = 4*maxBody, []string{}
	})
	client := caller(t, &tls.Config{RootCAs: authority.Pool})
	for _, body := range []string{bucketJSON(1, "alice"), strings.Repeat(" ", 4*http2Window) + bucketJSON(1, "alice")} {
		for range 3 {
			answer, err := client.Post("https://"+s.address+"/v1/check", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.ProtoMajor != 2 || answer.StatusCode != http.StatusOK || answer.TLS.Version < tls.VersionTLS12 {
				t.Errorf("%s %s %s", answer.Proto, answer.Status, text)
			}
		}
	}
	// The page of a foreign name cannot show that name's certificate, but may be foreign all the same.
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.address+"/v1/check", strings.NewReader(bucketJSON(1, "alice")))
	request.Host = "velocityd.example.org"
	request.Header.Set("Content-Type", "application/json")
	for origin, want := range map[string]int{"": http.StatusOK, "https://evil.example": http.StatusForbidden} {
		request.Header.Set("Origin", origin)
		request.Body, _ = request.GetBody()
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("origin %q: %s", origin, answer.Status)
		}
	}
	if held := s.server.bodies.held.Load(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

func TestOldVersionsOfTLSAreRefused(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	s := listenWith(t, nil, ListenerOptions{TLS: tlsSettings(t, authority)}, nil)
	for version, accepted := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		config := &tls.Config{RootCAs: authority.Pool, MinVersion: version, MaxVersion: version}
		conn, err := tls.Dial("tcp", s.address, config)
		if (err == nil) != accepted {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
	eventually(t, "the log tells of it", func() bool {
		log := s.log.String()
		return strings.Contains(log, `"code":"tls_handshake"`) && strings.Contains(log, "unsupported versions")
	})
}

func TestCertificatesOfCallersAreVerified(t *testing.T) {
	t.Parallel()
	authority, stranger := handlerstest.NewAuthority(t), handlerstest.NewAuthority(t)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := "nobody"
		if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
			who = r.TLS.VerifiedChains[0][0].Subject.CommonName
		}
		w.Header().Set("Who", fmt.Sprint(r.ProtoMajor, " ", who))
	}), time.Minute, nil)
	go func() { _ = server.Serve(NewListener(inner, ListenerOptions{TLS: tlsSettings(t, authority)})) }()
	defer func() { _ = server.Close() }()
	for _, c := range []struct {
		signer *handlerstest.Authority
		want   string
	}{{nil, "nobody"}, {authority, "auth-1"}, {stranger, ""}} {
		for _, protocol := range []string{"1", "2"} {
			config := &tls.Config{RootCAs: authority.Pool}
			if c.signer != nil {
				// What a stranger's client sends although the server does not ask for it.
				loaded := c.signer.Issue(t, "auth-1").Loaded(t)
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &loaded, nil }
			}
			client := caller(t, config)
			client.Transport.(*http.Transport).ForceAttemptHTTP2 = protocol == "2"
			answer, err := client.Get("https://" + inner.Addr().String())
			if c.want == "" {
				if err == nil {
					t.Errorf("a stranger's certificate over HTTP/%s: %s", protocol, answer.Status)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if got := answer.Header.Get("Who"); got != protocol+" "+c.want {
				t.Errorf("got %q, want HTTP/%s and %s", got, protocol, c.want)
			}
		}
	}
}

func TestHTTP1IsWatchedUnderTLS(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	s := listenWith(t, nil, ListenerOptions{TLS: tlsSettings(t, authority)}, nil)
	body := bucketJSON(1, "alice")
	chunked := inChunks("/v1/check", body)
	l := s.dialTLS(t, authority)
	for range 3 {
		if header := l.mustAsk(t, chunked, http.StatusOK); header.Get("Connection") == "close" {
			t.Error("a chunked request closes its connection")
		}
	}
	both := strings.Replace(chunked, "Host: a\r\n", fmt.Sprintf("Host: a\r\nContent-Length: %d\r\n", len(body)), 1)
	if header := l.mustAsk(t, both, http.StatusOK); header.Get("Connection") != "close" {
		t.Error("the connection is kept behind a request of two lengths")
	}
	for name, c := range refusals() {
		l := s.dialTLS(t, authority)
		l.mustAsk(t, c.request, c.status)
		if logged := s.log.last(t); logged["status"] != float64(c.status) {
			t.Errorf("%s: logged %v", name, logged)
		}
	}
}

func TestPlainHTTPAtAPortOfTLSIsToldSo(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	s := listenWith(t, nil, ListenerOptions{TLS: tlsSettings(t, authority)}, nil)
	l := s.dial(t)
	if status, _, body, err := l.ask(askLive); err != nil || status != http.StatusBadRequest || !strings.Contains(body, "HTTPS") {
		t.Errorf("%d %s %v", status, body, err)
	}
	s.dialTLS(t, authority).mustAsk(t, askLive, http.StatusOK)
}

func TestTheCapOfConnectionsHoldsUnderTLS(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	s := listenWith(t, nil, ListenerOptions{TLS: tlsSettings(t, authority), MaxConnections: http2Streams + 1}, nil)
	leaving, old := s.dialTLS(t, authority), s.dialTLS(t, authority)
	leaving.mustAsk(t, askLive, http.StatusOK)
	old.mustAsk(t, askLive, http.StatusOK)
	client := caller(t, &tls.Config{RootCAs: authority.Pool})
	for range 3 {
		answer, err := client.Post("https://"+s.address+"/v1/check", "application/json", strings.NewReader(bucketJSON(1, "alice")))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.ProtoMajor != 2 || answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") != "1" {
			t.Errorf("%s %s", answer.Proto, answer.Status)
		}
		old.mustAsk(t, askLive, http.StatusOK)
	}
	leaving.Close()
	eventually(t, "a place is free again", func() bool {
		answer, err := client.Post("https://"+s.address+"/v1/check", "application/json", strings.NewReader(bucketJSON(1, "alice")))
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

func TestAListenerOfTLSThatIsClosedEndsItsHandshakes(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := NewListener(inner, ListenerOptions{TLS: tlsSettings(t, handlerstest.NewAuthority(t))})
	secure := listener.(*secureListener)
	ended := make(chan error, 1)
	go func() {
		_, err := listener.Accept()
		ended <- err
	}()
	conn, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	eventually(t, "the handshake begins", func() bool { return secure.listener.places.open() == 1 })
	listener.Close()
	if err := <-ended; err == nil {
		t.Error("a connection was accepted")
	}
	if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	eventually(t, "the connection is closed", func() bool { return secure.listener.places.open() == 0 })
}

func TestASilentHandshakeIsCutOff(t *testing.T) {
	t.Parallel()
	settings := tlsSettings(t, handlerstest.NewAuthority(t))
	synctest.Test(t, func(t *testing.T) {
		pipes := pipeListener{make(chan net.Conn, 1)}
		server := NewServer(New(Options{}), time.Minute, nil)
		go func() { _ = server.Serve(NewListener(pipes, ListenerOptions{TLS: settings})) }()
		caller, accepted := net.Pipe()
		pipes.accepted <- accepted
		began := time.Now()
		if _, err := io.Copy(io.Discard, caller); err != nil || time.Since(began) > headerTimeout {
			t.Errorf("cut off after %s, %v", time.Since(began), err)
		}
		close(pipes.accepted)
		_ = server.Close()
	})
}
