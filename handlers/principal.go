package handlers

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"velocityd/api"
	"velocityd/service"
)

// principal returns on whose behalf a change is made, for the record, or "" if that is not
// known. It is the caller's name, or the user whom a trusted proxy names, or both: "user via
// caller".
func (s *server) principal(x *exchange) (string, error) {
	name := x.caller.Name
	if !s.isTrusted(x.Request().RemoteAddr) {
		return name, nil
	}
	user, err := principalOf(x.Request().Header)
	if err != nil || user == "" {
		return name, err
	}
	if name == "" {
		return user, nil
	}
	both := user + " via " + name
	if tooMany := utf8.RuneCountInString(both) - service.MaxNameLength; tooMany > 0 {
		return "", invalid(fmt.Sprintf("The name in the header %s must be shorter by %d characters, because it is recorded together with that "+
			"of the "+
			"credential, %s.", api.HeaderPrincipal, tooMany, name))
	}
	return both, nil
}

// isTrusted reports whether the header X-Forwarded-User is believed that comes from an
// address.
func (s *server) isTrusted(remote string) bool {
	from, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	address := from.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(s.Auth.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(address) })
}

// loopback returns the addresses of this machine itself.
func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// principalOf returns the user's name in the header that a proxy sets, or "" if
// there is none.
func principalOf(header http.Header) (string, error) {
	given := header.Values(api.HeaderPrincipal)
	if len(given) == 0 || len(given) == 1 && given[0] == "" {
		return "", nil
	}
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	name := given[0]
	if len(given) > 1 || !utf8.ValidString(name) ||
		utf8.RuneCountInString(name) > service.MaxNameLength || strings.ContainsFunc(name, unprintable) {
		return "", invalid(fmt.Sprintf("The header %s must be one name of at most %d printable characters in UTF-8.",
			api.HeaderPrincipal, service.MaxNameLength))
	}
	return name, nil
}
