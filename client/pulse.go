package client

import (
	"context"
	"net/http"

	"velocityd/api"
	"velocityd/service"
)

// Pulse returns the numbers of the instance that answers, since its start. The token needs the scope metrics.
func (c *Client) Pulse(ctx context.Context) (service.Pulse, error) {
	answer, err := ask[api.Pulse](ctx, c, request{action: "read the pulse", method: http.MethodGet, path: "/v1/pulse"})
	if err != nil {
		return service.Pulse{}, err
	}
	return answer.Pulse(), nil
}

// Instances implements service.InstanceLister. The token needs the scope metrics.
func (c *Client) Instances(ctx context.Context) ([]service.Instance, error) {
	answer, err := ask[api.Instances](ctx, c, request{action: "list instances", method: http.MethodGet, path: "/v1/instances"})
	if err != nil {
		return nil, err
	}
	return answer.List(), nil
}

// Diagnose returns whether the database is fit for the service, as of at most ten seconds ago. It may take twenty seconds. The token
// needs the scope admin.
func (c *Client) Diagnose(ctx context.Context) ([]service.Diagnosis, error) {
	answer, err := ask[api.Diagnosis](ctx, c, request{action: "ask for a diagnosis", method: http.MethodGet, path: "/v1/diagnosis"})
	if err != nil {
		return nil, err
	}
	return answer.List(), nil
}
