package handlers

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/handlers/wire"
	"velocityd/service"
)

// Names of header fields in which proxies say from where a request comes, in the canonical form of net/http.
const (
	fieldForwardedFor = "X-Forwarded-For"
	fieldForwarded    = "Forwarded"
)

// principal returns the name under which a change is recorded, or "" if none is known. It is the caller's name, or the
// user that a trusted proxy names, or both: "user via caller".
func (s *server) principal(x *exchange) (string, error) {
	name := x.caller.Name
	if !s.Auth.TrustedProxies.Trust(peerOf(x.Request())) {
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
		return "", problem.Invalid(fmt.Sprintf("The name in the header %s must be shorter by %d characters, because it is "+
			"recorded together with that of the credential, %s.", api.HeaderPrincipal, tooMany, name))
	}
	return both, nil
}

// peerOf returns the address at the other end of a request's connection, or no valid one if the connection is
// not of IP.
func peerOf(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero value is not valid
	return peer.Addr()
}

// client returns the address that a request comes from, behind proxies that are trusted.
func (s *server) client(r *http.Request) (netip.Addr, error) {
	client, ok := s.Auth.TrustedProxies.Client(peerOf(r), r.Header[fieldForwardedFor], r.Header[fieldForwarded])
	if !ok {
		return client, problem.Invalid("The headers X-Forwarded-For and Forwarded of the request lead to different " +
			"addresses, or there is no address at all. Let the proxy remove the header that it does not write.")
	}
	return client, nil
}

// shareKeyOf names the caller whose share of a bound a request takes: the credential, or in an open service the
// address. It stays the same until the request has ended.
func (s *server) shareKeyOf(x *exchange) string {
	if x.shareKey == "" {
		client, err := s.client(x.Request())
		if err != nil { // a request whose headers lead to different addresses counts for the peer
			client = peerOf(x.Request())
		}
		x.shareKey = cmp.Or(x.caller.Name, wire.NetworkOf(client).String())
	}
	return x.shareKey
}

// reasonOf returns the reason of a change, or "" if the caller gives none.
func reasonOf(header http.Header) (string, error) {
	given := header.Values(api.HeaderReason)
	if len(given) == 0 {
		return "", nil
	}
	if len(given) > 1 || service.ValidateReason(given[0]) != nil {
		return "",
			problem.Invalid(
				fmt.Sprintf("The header %s must be one text of 1 to %d characters in UTF-8, none of them a control character.",
					api.HeaderReason, service.MaxReasonLength))
	}
	return given[0], nil
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
		return "", problem.Invalid(fmt.Sprintf("The header %s must be one name of at most %d printable characters in UTF-8.",
			api.HeaderPrincipal, service.MaxNameLength))
	}
	return name, nil
}
