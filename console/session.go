package console

import (
	"net/http"
	"time"
)

const (
	// cookieName begins with __Host-, so that a browser takes it from this origin alone (RFC 6265bis, section 4.1.3.2).
	cookieName = "__Host-velocityd"
	// sessionLength is how long a session lasts, and idleLength how long it lasts without a page that the reader asks for.
	sessionLength = 8 * time.Hour
	idleLength    = 30 * time.Minute
	// renewAfter bounds how often the cookie is written anew.
	renewAfter = time.Minute
)

// fieldLive is a header of requests that a page sends by itself. They do not make a session last longer.
const fieldLive = "X-Live"

// session is the sealed content of the cookie. The service keeps nothing of it: a revoked token ends all its sessions.
type session struct {
	Token   string    `json:"token"`
	BeganAt time.Time `json:"began_at"`
	UsedAt  time.Time `json:"used_at"`
}

// session returns that of a request, unless it has none that holds.
func (c *console) session(r *http.Request) (s session, ok bool) {
	cookie, err := r.Cookie(cookieName)
	if err != nil || !c.sessions.open(cookie.Value, &s) {
		return session{}, false
	}
	now := c.Now()
	if now.Sub(s.BeganAt) >= sessionLength || now.Sub(s.UsedAt) >= idleLength {
		return session{}, false
	}
	return s, true
}

// keepSession writes the cookie of a session that is in use.
func (c *console) keepSession(w http.ResponseWriter, r *http.Request, s session) {
	now := c.Now()
	if r.Header.Get(fieldLive) != "" || now.Sub(s.UsedAt) < renewAfter {
		return
	}
	s.UsedAt = now
	c.setCookie(w, c.sessions.seal(s), s.BeganAt.Add(sessionLength).Sub(now))
}

// setCookie writes the cookie; an empty value removes it.
func (c *console) setCookie(w http.ResponseWriter, value string, lasts time.Duration) {
	age := int(lasts.Seconds())
	if value == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	})
}
