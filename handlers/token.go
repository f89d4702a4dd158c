package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"math"

	"velocityd/api"
	"velocityd/service"
	"velocityd/service/access"
)

// Paths of tokens. Only the command makes tokens: over HTTP they would stay in caches and logs of answers.
const (
	pathTokens = "/v1/tokens"
	pathToken  = pathTokens + "/:id"
)

// listTokens answers GET /v1/tokens with one page.
func (s *server) listTokens(x *exchange) error {
	query := x.Request().URL.RawQuery
	after, limit, err := page(query)
	if err != nil {
		return err
	}
	wanted := access.Listing{After: after, Limit: limit + 1} // the one beyond limit shows that there is a next page
	if wanted.OnlyLive, err = isSet(query, "live", "live must be true or false, once."); err != nil {
		return err
	}
	return s.show(x, "", func(ctx context.Context) (any, error) {
		found, at, err := s.Registry.ListCredentials(ctx, wanted)
		answer := api.Tokens{Tokens: found[:min(len(found), limit)]}
		for i, c := range answer.Tokens {
			answer.Tokens[i].Live = c.IsLive(at)
		}
		if len(found) > limit {
			answer.Next = found[limit-1].ID
		}
		return answer, err
	})
}

// revokeToken answers DELETE /v1/tokens/{id}. The caller's own one may be revoked, too.
func (s *server) revokeToken(x *exchange) error {
	id, err := pathID(x, "id", math.MaxInt64)
	if err != nil {
		return err
	}
	x.attrs = append(x.attrs, slog.Uint64("token_id", id))
	texts := map[error]string{
		service.ErrNotFound: fmt.Sprintf("token %d: not found.", id),
		service.ErrConflict: fmt.Sprintf("The token %d was revoked before.", id),
	}
	return s.remove(x, texts, func(ctx context.Context, principal string) error {
		_, err := s.Registry.RevokeCredential(ctx, id, principal)
		return err
	})
}
