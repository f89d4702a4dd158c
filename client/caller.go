package client

import (
	"context"
	"net/http"

	"velocityd/service/access"
)

// Identity returns who the service believes this client to be. Any token that holds is answered. principal is the
// caller's name, or empty.
func (c *Client) Identity(ctx context.Context, principal string) (access.Identity, error) {
	return ask[access.Identity](ctx, c, request{
		action: "ask who the caller is", method: http.MethodGet, path: "/v1/caller", principal: principal,
	})
}
