package client

import (
	"context"
	"net/http"

	"velocityd/service"
)

// Retention implements service.RetentionReader.
func (c *Client) Retention(ctx context.Context) (service.Retention, error) {
	return ask[service.Retention](ctx, c, request{
		action: "read the state of retention", method: http.MethodGet, path: "/v1/retention",
	})
}
