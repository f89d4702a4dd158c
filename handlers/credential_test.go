package handlers

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"velocityd/handlers/admission"
	"velocityd/service/access"
	"velocityd/service/memory"
)

func TestACredentialIsTakenInEachForm(t *testing.T) {
	t.Parallel()
	g := guard(t)
	token := g.credentials.AddToken(access.Caller{Name: "shop", Scopes: []access.Scope{access.ScopeHistory}}).Reveal()
	basic := func(user string) string {
		return base64.StdEncoding.EncodeToString([]byte(user + ":" + token))
	}
	for _, headers := range map[string][]string{
		"bearer":                        {"Authorization", "Bearer " + token},
		"bearer in small letters":       {"Authorization", "bearer   " + token},
		"key":                           {"X-API-Key", token},
		"key, in small letters":         {"x-api-key", token},
		"basic":                         {"Authorization", "Basic " + basic("anybody")},
		"basic without user":            {"Authorization", "BASIC " + basic("")},
		"key before the user's bearer":  {"X-API-Key", token, "Authorization", "Bearer eyJhbGciOi"},
		"key before somebody's token":   {"X-API-Key", token, "Authorization", "Bearer " + access.NewToken().Reveal()},
		"key before the user's several": {"X-API-Key", token, "Authorization", "a", "Authorization", "b"},
	} {
		g.ask(t, "GET", "/v1/txns/1", "", headers...).answered(t, http.StatusOK)
	}
	if line := g.log.Last(t); line["caller"] != "shop" {
		t.Errorf("the log has caller %v", line["caller"])
	}
	if text := g.log.String(); strings.Contains(text, token[4:20]) || strings.Contains(text, basic("anybody")) {
		t.Error("the log holds a token")
	}
}

func TestAVerifiedClientCertificateIsACredential(t *testing.T) {
	t.Parallel()
	memory := memory.New()
	auth, credentials := authOf(t, memory)
	handler := New(Options{Reader: memory, Writer: memory, Auth: auth})
	credentials.Add(access.NewCertificateCredential("CN=auth-1,O=Example",
		access.Caller{Name: "auth-1", Scopes: []access.Scope{access.ScopeZones}}))
	token := credentials.AddToken(access.Caller{Name: "shop", Scopes: []access.Scope{access.ScopeCheck}})
	of := func(parts pkix.RDNSequence) *x509.Certificate {
		raw, err := asn1.Marshal(parts)
		if err != nil {
			t.Fatal(err)
		}
		cert := &x509.Certificate{RawSubject: raw}
		cert.Subject.FillFromRDNSequence(&parts)
		return cert
	}
	named := func(name, organization string) *x509.Certificate {
		return of(pkix.Name{CommonName: name, Organization: []string{organization}}.ToRDNSequence())
	}
	registered := pkix.Name{CommonName: "auth-1", Organization: []string{"Example"}}.ToRDNSequence()
	another := pkix.Name{CommonName: "mallory"}.ToRDNSequence()
	verified := func(chain ...*x509.Certificate) *tls.ConnectionState {
		return &tls.ConnectionState{PeerCertificates: chain, VerifiedChains: [][]*x509.Certificate{chain}}
	}
	for name, c := range map[string]struct {
		state  *tls.ConnectionState
		header string
		status int
	}{
		"registered":                      {verified(named("auth-1", "Example"), named("ca", "Example")), "", 200},
		"and the user's credentials":      {verified(named("auth-1", "Example")), "Basic YWxpY2U6c2VjcmV0", 200},
		"and a token, which wins":         {verified(named("auth-1", "Example")), "Bearer " + token.Reveal(), 403},
		"and a token that was never made": {verified(named("auth-1", "Example")), "Bearer " + access.NewToken().Reveal(), 401},
		"another name":                    {verified(named("auth-2", "Example")), "", 401},
		"another organization":            {verified(named("auth-1", "Mallory")), "", 401},
		"name with the organization":      {verified(named("auth-1,O=Example", "")), "", 401},
		"another name before it":          {verified(of(slices.Insert(slices.Clone(registered), 1, another[0]))), "", 401},
		"in another order":                {verified(of(pkix.RDNSequence{registered[1], registered[0]})), "", 401},
		"no subject that can be read": {verified(&x509.Certificate{Subject: pkix.Name{
			CommonName:   "auth-1",
			Organization: []string{"Example"},
		}}), "", 401},
		"registered, as an issuer": {verified(named("x", "Example"), named("auth-1", "Example")), "", 401},
		"not verified": {
			&tls.ConnectionState{PeerCertificates: []*x509.Certificate{named("auth-1", "Example")}},
			"", 401,
		},
		"no certificate": {&tls.ConnectionState{}, "", 401},
		"no TLS":         {nil, "", 401},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/zones", nil)
		r.TLS = c.state
		if c.header != "" {
			r.Header.Set("Authorization", c.header)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, c.status)
		}
	}
}

// FuzzCredential holds that a request is a caller's only if it has the whole text of its token, plain or as the
// password of Basic.
func FuzzCredential(f *testing.F) {
	token := access.NewToken().Reveal()
	for _, seed := range []string{
		"Bearer " + token, "bearer  " + token, "Basic " + base64.StdEncoding.EncodeToString([]byte("a:"+token)),
		"Basic " + base64.StdEncoding.EncodeToString([]byte(token)), "Bearer", "", " ", "Basic", "Basic ====", token,
		"Digest username=x",
	} {
		f.Add(seed, "")
		f.Add("", seed)
	}
	f.Fuzz(func(t *testing.T, authorization, key string) {
		r := &http.Request{Header: http.Header{}}
		if authorization != "" {
			r.Header.Set(fieldAuthorization, authorization)
		}
		if key != "" {
			r.Header.Set(fieldAPIKey, key)
		}
		digest, given := admission.CredentialOf(r.Header[fieldAuthorization], r.Header[fieldAPIKey], nil)
		if !given {
			return
		}
		text := key
		if key == "" {
			_, text, _ = strings.Cut(authorization, " ")
			text = strings.TrimLeft(text, " ")
			if decoded, err := base64.StdEncoding.DecodeString(text); err == nil && strings.Contains(string(decoded), ":") {
				_, text, _ = strings.Cut(string(decoded), ":")
			}
		}
		if held, ok := access.ParseToken(text); !ok || held.Digest() != digest {
			t.Errorf("%q and %q are taken for a token", authorization, key)
		}
	})
}
