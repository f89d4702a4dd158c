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
