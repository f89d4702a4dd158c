package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"velocityd/service"
)

// Attempt returns the answer and the txns of an attempt by its id, or an error that wraps service.ErrNotFound.
func (c *Client) Attempt(ctx context.Context, id string) (service.Recall, error) {
	r := request{action: "read an attempt", method: http.MethodGet, path: attemptPath(id)}
	if err := service.ValidateAttemptID(id); err != nil {
		return service.Recall{}, fmt.Errorf("%s: %w", r.action, err)
	}
	answer, err := ask[service.Recall](ctx, c, r)
	if err == nil && answer.AttemptID != id {
		err = c.unreadable(r, "the answer is about another attempt")
	}
	if err != nil {
		return service.Recall{}, err
	}
	return answer, nil
}

func attemptPath(id string) string { return "/v1/attempts/" + url.PathEscape(id) }
