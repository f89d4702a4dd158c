package envoy

import (
	"context"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"velocityd/handlers/admission"
)

// Check answers a request as a server of o does, without a connection.
func Check(ctx context.Context, o Options, request *auth.CheckRequest) (*auth.CheckResponse, error) {
	return (&authorization{backend: &backend{options: o, faults: &admission.FaultLog{}}}).Check(ctx, request)
}
