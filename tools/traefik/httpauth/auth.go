// Package auth stands for Traefik's fork of the module of this name, which some proxies do not serve. Traefik's
// basicAuth and digestAuth need it, and ForwardAuth does not: no user is let in here.
package auth

import "net/http"

// BasicAuth is the part that basicAuth needs.
type BasicAuth struct {
	Realm   string
	Secrets func(user, realm string) string
}

// RequireAuth refuses a request.
func (*BasicAuth) RequireAuth(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusUnauthorized)
}

// CheckSecret takes no password.
func CheckSecret(_, _ string) bool { return false }

// DigestAuth is the part that digestAuth needs.
type DigestAuth struct{}

// NewDigestAuthenticator returns one that knows no user.
func NewDigestAuthenticator(string, func(user, realm string) string) *DigestAuth {
	return new(DigestAuth)
}

// DigestAuthParams reads nothing.
func DigestAuthParams(string) map[string]string { return nil }

// CheckAuth knows no user.
func (*DigestAuth) CheckAuth(*http.Request) (user string, info *string) { return "", nil }

// RequireAuth refuses a request.
func (*DigestAuth) RequireAuth(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusUnauthorized)
}

// RequireAuthStale refuses a request.
func (*DigestAuth) RequireAuthStale(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusUnauthorized)
}
