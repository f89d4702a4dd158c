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

	"velocityd/tools/handlerstest"
)

func TestAFailedHandshakeIsLogged(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	s := listenWith(t, Options{TLS: authority.ServerTLS(t)})
	old := &tls.Config{RootCAs: authority.Pool, MinVersion: tls.VersionTLS11, MaxVersion: tls.VersionTLS11} //nolint:gosec // it is refused
	if conn, err := tls.Dial("tcp", s.address, old); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
	handlerstest.Eventually(t, "the log tells of it", func() bool {
		log := s.log.String()
		return strings.Contains(log, `"code":"tls_handshake"`) && strings.Contains(log, "unsupported versions")
	})
}

func TestHandlersSeeTheCertificateOfTheCaller(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	s := listenTo(t, Options{TLS: authority.ServerTLS(t)}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Who", fmt.Sprint(r.ProtoMajor, " ", r.TLS.VerifiedChains[0][0].Subject.CommonName))
	})
	for _, protocol := range []string{"1", "2"} {
		transport := &http.Transport{ForceAttemptHTTP2: protocol == "2", TLSClientConfig: &tls.Config{
			RootCAs: authority.Pool, Certificates: []tls.Certificate{authority.Issue(t, "auth-1").Loaded(t)},
		}}
		t.Cleanup(transport.CloseIdleConnections)
		answer, err := (&http.Client{Transport: transport}).Get("https://" + s.address)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got := answer.Header.Get("Who"); got != protocol+" auth-1" {
			t.Errorf("got %q, want HTTP/%s and auth-1", got, protocol)
		}
	}
}

func TestHTTP1IsWatchedUnderTLS(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	s := listenWith(t, Options{TLS: authority.ServerTLS(t)})
	body := "alice"
	chunked := handlerstest.InChunks("/", body)
	l := handlerstest.DialTLS(t, s.address, authority)
	for range 3 {
		if l.MustAsk(t, chunked, http.StatusOK).Closes {
			t.Error("a chunked request closes its connection")
		}
	}
	both := strings.Replace(chunked, "Host: a\r\n", fmt.Sprintf("Host: a\r\nContent-Length: %d\r\n", len(body)), 1)
	if !l.MustAsk(t, both, http.StatusOK).Closes {
		t.Error("the connection is kept behind a request of two lengths")
	}
	for name, c := range refusals() {
		l := handlerstest.DialTLS(t, s.address, authority)
		l.MustAsk(t, c.request, c.status)
		if logged := s.log.Last(t); logged["status"] != float64(c.status) {
			t.Errorf("%s: logged %v", name, logged)
		}
	}
}

func TestPlainHTTPOnTLSPortIsToldSo(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	s := listenWith(t, Options{TLS: authority.ServerTLS(t)})
	l := handlerstest.Dial(t, s.address)
	if got, err := l.Ask(askRoot); err != nil || got.Status != http.StatusBadRequest ||
		!strings.Contains(got.Body, "HTTPS") {
		t.Errorf("%+v %v", got, err)
	}
	handlerstest.DialTLS(t, s.address, authority).MustAsk(t, askRoot, http.StatusOK)
}

func TestASilentHandshakeIsCutOff(t *testing.T) {
	t.Parallel()
	settings := handlerstest.NewAuthority(t).ServerTLS(t)
	synctest.Test(t, func(t *testing.T) {
		caller, accepted := net.Pipe()
		defer serveConn(mirror, Options{TLS: settings}, accepted)()
		began := time.Now()
		if _, err := io.Copy(io.Discard, caller); err != nil || time.Since(began) > headerTimeout {
			t.Errorf("cut off after %s, %v", time.Since(began), err)
		}
	})
}
