package proxy

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"velocityd/handlers/gate"
)

// Login is a method and a path by which users log in.
type Login struct {
	method string   // "*" for any
	parts  []string // of the path; "*" is any one part, and "**" at the end any rest
}

// ParseLogin reads a login such as "POST /realms/*/login-actions/authenticate".
func ParseLogin(text string) (Login, error) {
	method, path, ok := strings.Cut(strings.TrimSpace(text), " ")
	if !ok || method == "" || strings.ToUpper(method) != method || !strings.HasPrefix(path, "/") ||
		strings.ContainsAny(path, " ?#%;\\") {
		return Login{}, fmt.Errorf("a login is a method and a path, such as 'POST /login', without a query and %%; it is %q",
			text)
	}
	parts := partsOf(path)
	if i := slices.Index(parts, "**"); i >= 0 && i < len(parts)-1 {
		return Login{}, fmt.Errorf("** stands at the end of a login's path only; it is %q", text)
	}
	return Login{method, parts}, nil
}

// matches reports whether a request may be such a login for some application. It matches too much rather than too
// little: a login that it does not match is a guess that is not counted.
func (l Login) matches(r *http.Request, readings [][]string) bool {
	return l.mayBeMethod(r) && slices.ContainsFunc(readings, l.matchesPath)
}

// mayBeMethod reports whether an application may take the request's method for that of the login. A method that
// reads is taken for itself, unless the request asks for another one, as some frameworks allow.
func (l Login) mayBeMethod(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return l.method == "*" || l.method == http.MethodGet || l.method == http.MethodHead || overridesMethod(r)
	case http.MethodOptions:
		return l.method == "*" || l.method == http.MethodOptions || overridesMethod(r)
	}
	return true
}

// overridesMethod reports whether a request names another method in a header or its query.
func overridesMethod(r *http.Request) bool {
	for name := range r.Header {
		switch gate.PlainName(name) {
		case "x-http-method-override", "x-http-method", "x-method-override":
			return true
		}
	}
	for name := range r.URL.Query() {
		if gate.PlainName(name) == "-method" {
			return true
		}
	}
	return false
}

func (l Login) matchesPath(parts []string) bool {
	for i, want := range l.parts {
		switch {
		case want == "**":
			return true
		case i == len(parts):
			return false
		case want == "*" || strings.EqualFold(want, parts[i]):
		case i == len(l.parts)-1 && strings.EqualFold(want, withoutSuffix(want, parts[i])):
		default:
			return false
		}
	}
	// A program such as login.php answers all paths below it, too.
	return len(parts) == len(l.parts) || len(l.parts) > 0 && strings.Contains(l.parts[len(l.parts)-1], ".")
}

// withoutSuffix returns a part of a path without the format behind it, as in /login.json, if the wanted one has none.
func withoutSuffix(want, part string) string {
	if strings.Contains(want, ".") {
		return part
	}
	name, _, _ := strings.Cut(part, ".")
	return name
}

// mostDecoded is how often a path is decoded: once by the rules, and more often by programs behind one another.
const mostDecoded = 4

// readings returns the paths that programs may read in that of an address, as their parts: decoded up to
// mostDecoded times, and each time with dot segments resolved, and with them as they are.
func readings(u *url.URL) (list [][]string) {
	path := u.EscapedPath()
	for range mostDecoded + 1 {
		parts := partsOf(path)
		list = append(list, parts, resolved(parts))
		decoded := decode(path)
		if decoded == path {
			return list
		}
		path = decoded
	}
	return list
}

// decode decodes the percent-encoded parts of a text.
func decode(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		if len(text) >= 3 && text[0] == '%' {
			if c, err := url.PathUnescape(text[:3]); err == nil {
				b.WriteString(c)
				text = text[3:]
				continue
			}
		}
		b.WriteByte(text[0])
		text = text[1:]
	}
	return b.String()
}

// partsOf returns the parts of a path without those that some programs leave out: empty parts, parameters (/login;x=1),
// all from a zero byte, a query or a fragment that was encoded, and spaces, control characters and dots at the ends of
// a part.
func partsOf(path string) (parts []string) {
	if i := strings.IndexAny(path, "?#\x00"); i >= 0 {
		path = path[:i]
	}
	for part := range strings.SplitSeq(strings.ReplaceAll(path, `\`, "/"), "/") {
		part, _, _ = strings.Cut(part, ";")
		part = strings.TrimFunc(part, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
		if part != "." && part != ".." {
			part = strings.TrimRight(part, ". ")
		}
		if part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// resolved returns parts without dot segments.
func resolved(parts []string) []string {
	var list []string
	for _, part := range parts {
		switch part {
		case ".":
		case "..":
			list = list[:max(0, len(list)-1)]
		default:
			list = append(list, part)
		}
	}
	return list
}
