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

// principal returns who asks, as far as anybody has told, or "".
func principal(header http.Header) (string, error) {
	given := header.Values(api.HeaderPrincipal)
	if len(given) == 0 || len(given) == 1 && given[0] == "" {
		return "", nil
	}
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	name := given[0]
	if len(given) > 1 || !utf8.ValidString(name) ||
		utf8.RuneCountInString(name) > service.MaxNameLength || strings.ContainsFunc(name, odd) {
		return "", invalid(fmt.Sprintf("The header %s must be one name of at most %d printable characters in UTF-8.",
			api.HeaderPrincipal, service.MaxNameLength))
	}
	return name, nil
}
