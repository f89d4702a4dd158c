//go:build !no_grpc

package daemon

import (
	"context"
	"crypto/tls"

	"velocityd/envoy"
	"velocityd/handlers"
	"velocityd/handlers/wire"
)

// HasGRPC says that this program answers Envoy over gRPC. One that was built with the tag no_grpc does not.
const HasGRPC = true

// grpcDoors returns the door for Envoy, if there is an address for it.
func (s *Instance) grpcDoors(ctx context.Context, o handlers.Options, l *Listeners, connections int) []door {
	if l.grpc == nil {
		return nil
	}
	var secure *tls.Config
	if l.certificates != nil {
		secure = l.certificates.Config()
	}
	bounds := s.options.Connections
	bounds.MaxConnections, bounds.Logger = connections, s.logger
	options := envoy.Options{
		Limiter: o.Limiter, Buckets: o.Reader, Admission: o.Auth.Admission, Proxies: o.Auth.Proxies(), Ready: o.Ready, Running: ctx,
		TLS: secure, Logger: s.logger,
	}
	if s.options.Gates != nil {
		options.Gates = s.options.Gates
	}
	return []door{{
		server:   envoy.New(options),
		listener: wire.NewBounded(l.grpc, bounds, envoy.Streams),
	}}
}
