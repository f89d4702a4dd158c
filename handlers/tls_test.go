package handlers

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"velocityd/handlers/wire"
	"velocityd/tools/handlerstest"
)

// caller returns a client that trusts the authority. It speaks HTTP/2 if it can.
func caller(t *testing.T, config *tls.Config) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestHTTP2IsSpokenOverTLS(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	s := listenWith(t, nil, wire.Options{TLS: authority.ServerTLS(t), MaxConnectionsPerPeer: http2Streams},
		func(o *Options) {
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
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.address+"/v1/check",
		strings.NewReader(bucketJSON(1, "alice")))
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
	if held := s.server.bodies.Taken(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

func TestTheCapOfConnectionsHoldsUnderTLS(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	s := listenWith(t, nil, wire.Options{TLS: authority.ServerTLS(t), MaxConnections: http2Streams + 1}, nil)
	leaving, old := handlerstest.DialTLS(t, s.address, authority), handlerstest.DialTLS(t, s.address, authority)
	leaving.MustAsk(t, askLive, http.StatusOK)
	old.MustAsk(t, askLive, http.StatusOK)
	client := caller(t, &tls.Config{RootCAs: authority.Pool})
	for range 3 {
		answer, err := client.Post("https://"+s.address+"/v1/check", "application/json",
			strings.NewReader(bucketJSON(1, "alice")))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.ProtoMajor != 2 || answer.StatusCode != http.StatusServiceUnavailable ||
			answer.Header.Get("Retry-After") != "1" {
			t.Errorf("%s %s", answer.Proto, answer.Status)
		}
		old.MustAsk(t, askLive, http.StatusOK)
	}
	leaving.Close()
	handlerstest.Eventually(t, "a place is free again", func() bool {
		answer, err := client.Post("https://"+s.address+"/v1/check", "application/json",
			strings.NewReader(bucketJSON(1, "alice")))
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}
