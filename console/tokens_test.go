package console_test

import (
	"net/http"
	"net/url"
	"testing"

	"velocityd/service/access"
)

func TestTokensAreListedAndRevokedByTypedName(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	admin, analyst := p.person(t, "carol", access.ScopeAdmin),
		p.person(t, "ann "+hostile, access.ScopePeek, access.ScopeHistory, access.ScopeMetrics)
	analyst.logIn(t)
	analyst.gets(t, "tokens", http.StatusForbidden)
	page := admin.logIn(t).gets(t, "tokens", http.StatusOK, ">you<", ">admin<", ">analyst<", "&lt;img",
		"velocityd token create")
	lacks(t, page, admin.token, analyst.token, "<img")
	admin.posts(t, "tokens/2/revoke", url.Values{"typed": {"ann"}}, http.StatusBadRequest, "not the name of the token")
	admin.posts(t, "tokens/2/revoke", url.Values{"typed": {"ann " + hostile}, "reason": {"he has left"}}, http.StatusOK,
		"The token was revoked", "Revoked")
	_, page = admin.get(t, "tokens")
	lacks(t, page, "&lt;img")
	if status, _ := analyst.post(t, "tokens/1/revoke",
		url.Values{"typed": {"carol"}, "reason": {"r"}}); status == http.StatusOK {
		t.Error("an analyst has revoked the administrator's token")
	}
}
