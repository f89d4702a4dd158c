package proxy_test

import (
	"net/http"
	"testing"

	"velocityd/doors/proxy"
)

// isStopped reports whether a login without a user is stopped at a path, which tells that the path is one of logins.
func isStopped(t *testing.T, f *front, method, path string, headers ...string) bool {
	t.Helper()
	return f.send(t, method, path, "x=right", headers...).status == http.StatusBadRequest
}

func TestLoginIsSeenInEverySpellingApplicationsTake(t *testing.T) {
	t.Parallel()
	f := stand(t, &application{}, func(o *proxy.Options) {
		o.Logins = all(t, proxy.ParseLogin, "POST /login", "POST /realms/*/auth", "POST /all/**", "POST /old/login.php")
	})
	for _, path := range []string{
		"/login", "/login?next=/", "//login", "///login//", "/login/", "/Login", "/LOGIN", "/%6Cogin", "/%256cogin",
		"/%2Flogin", "/login;x=1", "/;x/login",
		"/./login", "/x/../login", "/x/%2e%2e/login", "/x/..;/login", "/login.json", "/login%20", "/login%00", "/login%0a",
		"/login.", "/%5clogin",
		"/login%3Fx", "/login%23x", "/lo%67in%2f", "/%E2%80%82login", "/realms/master/auth", "/realms/a%2520b/auth/", "/all",
		"/all/x/y", "/all/../x",
		"/old/login.php", "/old/login.php/x/y", "/old/login.php.", "/old/login.php%20.%20", "/realms/ſ/auth",
		"/%25%36%63ogin",
	} {
		if !isStopped(t, f, http.MethodPost, path) {
			t.Errorf("POST %s reached the application without a check", path)
		}
	}
	for _, c := range [][]string{
		{http.MethodPut, "/login"},
		{http.MethodPatch, "/login"},
		{"post", "/login"},
		{"LOGIN", "/login"},
		{http.MethodGet, "/login", "X-HTTP-Method-Override", "POST"},
		{http.MethodGet, "/login", "X_HTTP_Method_Override", "POST"},
		{http.MethodGet, "/login?_method=POST"},
		{http.MethodGet, "/login?%5fMethod=POST"},
		{http.MethodHead, "/login", "X-Method-Override", "POST"},
	} {
		if !isStopped(t, f, c[0], c[1], c[2:]...) {
			t.Errorf("%q reached the application without a check", c)
		}
	}
}

func TestOtherPathsAndReadingMethodsPass(t *testing.T) {
	t.Parallel()
	f := stand(t, &application{},
		func(o *proxy.Options) { o.Logins = all(t, proxy.ParseLogin, "POST /login", "POST /realms/*/auth") })
	for _, c := range [][2]string{
		{http.MethodGet, "/login"},
		{http.MethodHead, "/login"},
		{http.MethodOptions, "/login"},
		{http.MethodGet, "/login?user=alice&flow=method"},
		{http.MethodPost, "/"},
		{http.MethodPost, "/logins"},
		{http.MethodPost, "/login/flow"},
		{http.MethodPost, "/x/login"},
		{http.MethodPost, "/realms/auth"},
		{http.MethodPost, "/realms/a/b/auth"},
		{http.MethodPost, "/log/in"},
	} {
		if isStopped(t, f, c[0], c[1]) {
			t.Errorf("%s %s was taken for a login", c[0], c[1])
		}
	}
}

func TestALoginIsAMethodAndAPath(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "POST", "/login", "POST login", "post /login", "POST /login?x", "POST /a%2f",
		"POST /**/login", "POST /a b", "POST /a;b",
	} {
		if l, err := proxy.ParseLogin(text); err == nil {
			t.Errorf("%q became %v", text, l)
		}
	}
}
