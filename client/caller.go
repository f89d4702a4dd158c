package client

import (
	"context"
	"net/http"

	"velocityd/service/access"
)

// Identity returns the identity of this client for the service. Any token that holds is answered. principal is the
// caller's name, or empty.
func (c *Client) Identity(ctx context.Context, principal string) (access.Identity, error) {
	return ask[access.Identity](ctx, c, request{
		action: "ask for the identity of the caller", method: http.MethodGet, path: "/v1/caller", principal: principal,
	})
}
