package client

import (
	"context"
	"net/http"

	"velocityd/api"
	"velocityd/service"
)

// Retention implements service.RetentionReader.
func (c *Client) Retention(ctx context.Context) (service.Retention, error) {
	answer, err := ask[api.Retention](ctx, c, request{
		action: "read the state of retention", method: http.MethodGet, path: "/v1/retention",
	})
	if err != nil {
		return service.Retention{}, err
	}
	return answer.Retention(), nil
}
