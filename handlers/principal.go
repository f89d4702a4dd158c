package handlers

import (
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"velocityd/api"
	"velocityd/service"
)

// principalOf returns the caller's name in the header that a proxy sets, or "" if
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
