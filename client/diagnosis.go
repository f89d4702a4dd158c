package client

import (
	"context"
	"net/http"

	"velocityd/api"
	"velocityd/service"
)

// Diagnose returns whether the database is fit for the service, as of at most ten seconds ago. It may take twenty seconds. The token
// needs the scope admin.
func (c *Client) Diagnose(ctx context.Context) ([]service.Diagnosis, error) {
	answer, err := ask[api.Diagnosis](ctx, c, request{action: "ask for a diagnosis", method: http.MethodGet, path: "/v1/diagnosis"})
	return answer.Findings, err
}
