package console

import (
	"net"
	"net/http"
	"time"
)

const (
	// sessionLength is how long a session lasts, and idleLength how long it lasts without a page that the reader asks for.
	sessionLength = 8 * time.Hour
	idleLength    = 30 * time.Minute
	// keptLength is how long a browser keeps the cookie: longer than the session, so that the log-in can say how it ended.
	keptLength = 24 * time.Hour
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

// cookieName returns the name of the cookie. It begins with __Host-, so that a browser takes it from this origin alone
// (RFC 6265bis, section 4.1.3.2), and has the port of the address, because the ports of a host share their cookies.
func cookieName(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		return "__Host-velocityd-" + port
	}
	return "__Host-velocityd"
}

// session returns that of a request, or the zero session if none holds. ended says how one of before has ended.
func (c *console) session(r *http.Request) (s session, ended string) {
	cookie, err := r.Cookie(cookieName(r))
	now := c.Now()
	switch {
	case err != nil:
		return session{}, ""
	case !c.sessions.open(cookie.Value, &s):
		return session{}, "The service was started anew, or another one answers: --console-key-file keeps sessions."
	case now.Sub(s.BeganAt) >= sessionLength:
		return session{}, "It was 8 hours old."
	case now.Sub(s.UsedAt) >= idleLength:
		return session{}, "You have asked for no page for 30 minutes."
	}
	return s, ""
}

// keepSession writes the cookie of a session that is in use.
func (c *console) keepSession(w http.ResponseWriter, r *http.Request, s session) {
	now := c.Now()
	if r.Header.Get(fieldLive) != "" || now.Sub(s.UsedAt) < renewAfter {
		return
	}
	s.UsedAt = now
	setCookie(w, r, c.sessions.seal(s))
}

// setCookie writes the cookie; an empty value removes it.
func setCookie(w http.ResponseWriter, r *http.Request, value string) {
	age := int(keptLength.Seconds())
	if value == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	})
}
