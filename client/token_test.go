package client_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/client"
	"velocityd/handlers"
	"velocityd/handlers/admission"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/memory"
	"velocityd/tools/servicetest"
)

func TestClientProvesItsIdentityByItsToken(t *testing.T) {
	t.Parallel()
	m := memory.New()
	m.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	var credentials servicetest.Credentials
	token := credentials.AddToken(access.Caller{Name: "shop", Scopes: []access.Scope{access.ScopeCheck}})
	cache := access.NewCache(&credentials, access.Options{})
	t.Cleanup(cache.Close)
	url := serve(t, handlers.New(handlers.Options{
		Limiter: service.NewLimiter(m, service.LimiterOptions{Zones: m, Timeout: time.Minute}), Reader: m, Writer: m,
		Auth: handlers.Auth{Admission: admission.Admission{Callers: cache, Txns: m}},
	}))
	shop := connect(t, url, client.WithToken(token.Reveal()))
	if decisions, err := shop.CheckAll(t.Context(), []service.Check{one("alice")}); err != nil || decisions[0].Blocked {
		t.Errorf("a check: %+v, %v", decisions, err)
	}
	if self, err := shop.Identity(t.Context(), ""); err != nil || self.IsOpen || self.Name != "shop" ||
		self.Kind != access.KindToken ||
		!slices.Equal(self.Scopes, []access.Scope{access.ScopeCheck}) || self.IsBound() || self.Principal != "shop" {
		t.Errorf("its identity: %+v, %v", self, err)
	}
	_, err := shop.Zones(t.Context())
	if !errors.Is(err, access.ErrMissingScope) || errors.Is(err, service.ErrForbidden) ||
		!strings.Contains(err.Error(), "lacks one of the scopes") {
		t.Errorf("zones: %v", err)
	}
	for name, other := range map[string]string{"none": "", "unknown": access.NewToken().Reveal()} {
		_, err := connect(t, url, client.WithToken(other)).CheckAll(t.Context(), []service.Check{one("alice")})
		if !errors.Is(err, access.ErrUnauthenticated) || other != "" && strings.Contains(err.Error(), other) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTokenGoesToTheNamedServiceAlone(t *testing.T) {
	t.Parallel()
	elsewhere := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host is asked: %s", r.Header)
	}))
	first := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("the header is %q", r.Header.Get("Authorization"))
		}
		http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
	}))
	given := &http.Client{}
	for _, more := range [][]client.Option{nil, {client.WithHTTPClient(given)}} {
		_, err := connect(t, first, append(more, client.WithToken("secret"))...).Zones(t.Context())
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
	}
	if given.CheckRedirect != nil {
		t.Error("the caller's own client was changed")
	}
	if _, err := client.New(first, client.WithToken("sec\nret")); !errors.Is(err, service.ErrInvalid) ||
		strings.Contains(err.Error(), "sec") {
		t.Errorf("a token of two lines: %v", err)
	}
}
