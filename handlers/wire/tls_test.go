package wire

import (
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

func TestOldVersionsOfTLSAreRefused(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	s := listenWith(t, Options{TLS: tlsSettings(t, authority)})
	for version, accepted := range map[uint16]bool{
		tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true,
		tls.VersionTLS13: true,
	} {
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
	go func() { _ = server.Serve(NewListener(inner, Options{TLS: tlsSettings(t, authority)})) }()
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
			transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: protocol == "2"}
			t.Cleanup(transport.CloseIdleConnections)
			answer, err := (&http.Client{Transport: transport}).Get("https://" + inner.Addr().String())
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
	s := listenWith(t, Options{TLS: tlsSettings(t, authority)})
	body := "alice"
	chunked := inChunks(body)
	l := s.dialTLS(t, authority)
	for range 3 {
		if l.mustAsk(t, chunked, http.StatusOK).closes {
			t.Error("a chunked request closes its connection")
		}
	}
	both := strings.Replace(chunked, "Host: a\r\n", fmt.Sprintf("Host: a\r\nContent-Length: %d\r\n", len(body)), 1)
	if !l.mustAsk(t, both, http.StatusOK).closes {
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
	s := listenWith(t, Options{TLS: tlsSettings(t, authority)})
	l := s.dial(t)
	if got, err := l.ask(askRoot); err != nil || got.status != http.StatusBadRequest || !strings.Contains(got.body, "HTTPS") {
		t.Errorf("%+v %v", got, err)
	}
	s.dialTLS(t, authority).mustAsk(t, askRoot, http.StatusOK)
}

func TestAListenerOfTLSThatIsClosedEndsItsHandshakes(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := NewListener(inner, Options{TLS: tlsSettings(t, handlerstest.NewAuthority(t))})
	secure := listener.(*preparingListener)
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
	eventually(t, "the handshake begins", func() bool { return secure.listener.places.Taken() == 1 })
	listener.Close()
	if err := <-ended; err == nil {
		t.Error("a connection was accepted")
	}
	if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	eventually(t, "the connection is closed", func() bool { return secure.listener.places.Taken() == 0 })
}

func TestASilentHandshakeIsCutOff(t *testing.T) {
	t.Parallel()
	settings := tlsSettings(t, handlerstest.NewAuthority(t))
	synctest.Test(t, func(t *testing.T) {
		caller, accepted := net.Pipe()
		defer serveConn(mirror, Options{TLS: settings}, accepted)()
		began := time.Now()
		if _, err := io.Copy(io.Discard, caller); err != nil || time.Since(began) > headerTimeout {
			t.Errorf("cut off after %s, %v", time.Since(began), err)
		}
	})
}
