package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"velocityd/api"
	"velocityd/service/access"
)

func TestTokensArePagedWithoutSecretsAndRevokedPermanently(t *testing.T) {
	t.Parallel()
	g := guard(t)
	admin := g.as("admin", nil, access.ScopeAdmin)
	shop := g.as("shop", []int64{1}, access.ScopeCheck)
	g.credentials.Add(
		access.NewCertificateCredential(
			"CN=auth-1", access.Caller{Name: "auth-1", Scopes: []access.Scope{access.ScopeCheck}}))
	list := func(query string) (page api.Tokens) {
		t.Helper()
		got := g.ask(t, http.MethodGet, "/v1/tokens"+query, "", admin...)
		if err := json.Unmarshal([]byte(got.body), &page); err != nil || got.status != http.StatusOK ||
			strings.Contains(got.body, shop[1][len("Bearer ")+8:]) {
			t.Fatalf("%s: %d %s", query, got.status, got.body)
		}
		return page
	}
	page := list("?limit=2")
	if len(page.Tokens) != 2 || page.Next != 2 || page.Tokens[1].Name != "shop" ||
		page.Tokens[1].Shown != shop[1][len("Bearer "):][:8] ||
		fmt.Sprint(page.Tokens[1].Zones) != "[1]" || !page.Tokens[1].Live {
		t.Errorf("the first page is %+v", page)
	}
	if page = list("?after=2"); len(page.Tokens) != 1 || page.Next != 0 || page.Tokens[0].Subject != "CN=auth-1" ||
		page.Tokens[0].Kind != "certificate" {
		t.Errorf("the second page is %+v", page)
	}
	g.delete(t, "/v1/tokens/2", admin...).answered(t, http.StatusNoContent)
	g.delete(t, "/v1/tokens/2", admin...).refused(t, http.StatusConflict, "conflict")
	g.delete(t, "/v1/tokens/9", admin...).refused(t, http.StatusNotFound, "not_found")
	if page = list(""); len(page.Tokens) != 3 || page.Tokens[1].Live || page.Tokens[1].RevokedBy != "admin" {
		t.Errorf("afterwards they are %+v", page)
	}
	if page = list("?live=true"); len(page.Tokens) != 2 {
		t.Errorf("live are %+v", page)
	}
	for _, query := range []string{"?live=1", "?live=true&live=true", "?limit=0", "?after=x", "?live=%zz"} {
		g.ask(t, http.MethodGet, "/v1/tokens"+query, "", admin...).refused(t, http.StatusBadRequest, "invalid_request")
	}
	g.delete(t, "/v1/tokens/1", admin...).answered(t, http.StatusNoContent)
}
