package console_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"velocityd/service/access"
	"velocityd/tools/handlerstest"
)

func TestClientCertificateLogsPersonInWithoutToken(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	p := guarded(t)
	person := authority.Issue(t, "ann").Loaded(t)
	p.credentials.Add(access.NewCertificateCredential(access.CertificateSubject(person.Leaf),
		access.Caller{Name: "ann", Scopes: []access.Scope{access.ScopeHistory}}))
	server := httptest.NewUnstartedServer(p.server.Config.Handler)
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{authority.Issue(t, "velocityd").Loaded(t)},
		ClientCAs:    authority.Pool, ClientAuth: tls.VerifyClientCertIfGiven,
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	p.server = server
	with := func(certificates ...tls.Certificate) *browser {
		b := p.browser(t)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool, Certificates: certificates}}
		t.Cleanup(transport.CloseIdleConnections)
		b.http.Transport = transport
		return b
	}
	with(person).gets(t, "history", http.StatusOK, ">ann<")
	// The second one is of another person.
	for _, b := range []*browser{with(), with(authority.Issue(t, "bob").Loaded(t))} {
		b.gets(t, "history", http.StatusOK, "<h1>Log in</h1>")
	}
}

func TestOnlyTrustedProxyNamesItsUser(t *testing.T) {
	t.Parallel()
	p := guarded(t) // believes no proxy
	gateway := p.person(t, "gateway", access.ScopeHistory)
	for name, header := range map[string]http.Header{
		"a name alone":        {"X-Forwarded-User": {"ann"}},
		"a name and a guess":  {"X-Forwarded-User": {"ann"}, "X-Api-Key": {"vel_guess"}},
		"a name and a bearer": {"X-Forwarded-User": {"ann"}, "Authorization": {"Bearer " + gateway.token}},
	} {
		b := p.browser(t)
		b.header = header
		if _, page := b.get(t, "history"); strings.Contains(page, "ann") {
			t.Errorf("%s: the page is ann's: %s", name, words(page))
		}
	}
}
