package client

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"velocityd/api"
	"velocityd/service"
)

// Diagnose returns whether the database is fit for the service, as of at most ten seconds ago. It may take twenty
// seconds. The token needs the scope admin.
func (c *Client) Diagnose(ctx context.Context) (api.Diagnosis, error) {
	return ask[api.Diagnosis](
		ctx, c, request{action: "ask for a diagnosis", method: http.MethodGet, path: "/v1/diagnosis"})
}

// Readiness is whether a service can decide checks, and since when.
type Readiness struct {
	Cause string          // why it cannot, without a full stop; "" if it can
	Since service.Instant // zero if the service does not know it
	// Answers says that a service which cannot decide answers by the on_failure of zones.
	Answers bool
}

// Readiness asks whether the service can decide checks. It needs no token. The error says that there is no answer.
func (c *Client) Readiness(ctx context.Context) (r Readiness, err error) {
	question := request{action: "ask whether the service is ready", method: http.MethodGet, path: "/readyz"}
	state, err := ask[api.Health](ctx, c, question)
	if problem := (*api.Problem)(nil); errors.As(err, &problem) && errors.Is(err, api.ErrNotReady) {
		r.Cause, r.Since = strings.TrimSuffix(strings.TrimPrefix(problem.Detail, "Not ready: "), "."), problem.Since
		question.path += "?degraded=ok"
		_, err := ask[api.Health](ctx, c, question)
		r.Answers = err == nil
		return r, nil
	}
	return Readiness{Since: state.Since}, err
}
