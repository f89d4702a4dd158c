//go:build no_grpc

package server

import (
	"context"

	"velocityd/handlers"
)

// HasGRPC says that this program does not answer Envoy over gRPC.
const HasGRPC = false

// grpcDoors returns nothing: this program has no gRPC.
func (s *Instance) grpcDoors(context.Context, handlers.Options, *Listeners, int) []door { return nil }

// rateLimits returns nothing, for the same reason.
func (s *Instance) rateLimits(handlers.Options) handlers.RateLimits { return nil }
