//go:build no_grpc

package server

import (
	"context"

	"velocityd/handlers"
)

// HasGRPC says that this program does not answer Envoy over gRPC.
const HasGRPC = false

// grpcServers returns nothing: this program has no gRPC.
func (s *Instance) grpcServers(context.Context, handlers.Options, *Listeners, int) []boundServer {
	return nil
}

// rateLimits returns nothing, for the same reason.
func (s *Instance) rateLimits(handlers.Options) handlers.RateLimits { return nil }
