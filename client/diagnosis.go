package client

import (
	"context"
	"net/http"

	"velocityd/api"
)

// Diagnose returns whether the database is fit for the service, as of at most ten seconds ago. It may take twenty
// seconds. The token needs the scope admin.
func (c *Client) Diagnose(ctx context.Context) (api.Diagnosis, error) {
	return ask[api.Diagnosis](
		ctx, c, request{action: "ask for a diagnosis", method: http.MethodGet, path: "/v1/diagnosis"})
}

// Ready returns since when the service can decide checks. If it cannot, the error is an *api.Problem with the reason and
// with Since. With degraded, answers by the zones' on_failure do as well. It needs no token.
func (c *Client) Ready(ctx context.Context, degraded bool) (api.Health, error) {
	path := "/readyz"
	if degraded {
		path += "?degraded=ok"
	}
	return ask[api.Health](ctx, c, request{action: "ask whether the service is ready", method: http.MethodGet, path: path})
}
