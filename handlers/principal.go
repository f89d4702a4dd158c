package handlers

import (
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"velocityd/service"
)

// headerPrincipal is where a proxy that has asked the caller who he is says so.
// Without such a proxy callers can write into it what they like.
const headerPrincipal = "X-Forwarded-User"

// principal returns who asks, as far as anybody has told, or "".
func principal(header http.Header) (string, error) {
	given := header.Values(headerPrincipal)
	if len(given) == 0 || len(given) == 1 && given[0] == "" {
		return "", nil
	}
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	name := given[0]
	if len(given) > 1 || !utf8.ValidString(name) ||
		utf8.RuneCountInString(name) > service.MaxNameLength || strings.ContainsFunc(name, odd) {
		return "", invalid(fmt.Sprintf("The header %s must be one name of at most %d printable characters in UTF-8.",
			headerPrincipal, service.MaxNameLength))
	}
	return name, nil
}
