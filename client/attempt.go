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
	return askAbout(ctx, c, r, "attempt", func(a service.Recall) bool { return a.AttemptID == id })
}

func attemptPath(id string) string { return "/v1/attempts/" + url.PathEscape(id) }
