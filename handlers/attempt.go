package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/service"
)

// headerAttempt names an attempt as the member attempt_id does, for callers and
// proxies that know the header of draft-ietf-httpapi-idempotency-key-header.
const headerAttempt = "Idempotency-Key"

// pathAttemptShown is the path of showAttempt.
const pathAttemptShown = "/v1/attempts/:id"

// showAttempt answers GET /v1/attempts/{id}.
func (s *server) showAttempt(x *exchange, id string) error {
	named := service.Report{AttemptID: id}
	return s.lookUp(x, func(ctx context.Context) error {
		switch reached, err := s.Auth.Reachable(ctx, x.caller.Caller, named); {
		case err != nil:
			return err
		case !reached[0]:
			return named.NotFound()
		}
		found, err := s.Reader.Attempt(ctx, id)
		if err != nil {
			return err
		}
		x.hideAttempts(found.Txns, id)
		x.attrs = append(x.attrs, slog.Any("zone_ids", found.Decision.Zones()), slog.Bool("blocked", found.Decision.Blocked))
		return x.respondJSON(http.StatusOK, api.MediaJSON, found)
	})
}

// attemptID returns the name that a lone check gives its attempt, in the body or
// in the header, or "". It does NOT validate a name from the body: the Limiter does.
func attemptID(header http.Header, inBody string) (string, error) {
	given := header.Values(headerAttempt)
	if len(given) == 0 {
		return inBody, nil
	}
	inHeader, ok := "", len(given) == 1
	if ok {
		inHeader, ok = unquoted(strings.TrimSpace(given[0]))
	}
	switch {
	case !ok || inHeader == "" || len(inHeader) > service.MaxAttemptIDLength:
		return "",
			problem.Invalid(
				fmt.Sprintf("The header %s must be one string of 1 to %d printable ASCII characters, such as \"7f3c2a90\".",
					headerAttempt, service.MaxAttemptIDLength))
	case inBody != "" && inBody != inHeader:
		return "", problem.Invalid(fmt.Sprintf("attempt_id and the header %s differ. Give one of them.", headerAttempt))
	}
	return inHeader, nil
}

// unquoted returns the text of a structured field's string, or a bare token as it is: that is how most callers write
// the header.
func unquoted(value string) (text string, ok bool) {
	if !strings.HasPrefix(value, `"`) {
		return value, !strings.ContainsFunc(value, notTokenChar)
	}
	item, err := httpsfv.UnmarshalItem([]string{value})
	if err != nil {
		return "", false
	}
	text, ok = item.Value.(string)
	return text, ok
}

// notTokenChar reports whether r cannot be part of a token (RFC 9110).
func notTokenChar(r rune) bool {
	return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') &&
		!strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}
