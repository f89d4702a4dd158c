//go:build !no_grpc

package server

import (
	"context"
	"crypto/tls"

	"velocityd/doors/envoy"
	"velocityd/handlers"
	"velocityd/handlers/wire"
)

// HasGRPC says that this program answers Envoy over gRPC. One that was built with the tag no_grpc does not.
const HasGRPC = true

// grpcServers returns the server for Envoy, if there is an address for it.
func (s *Instance) grpcServers(ctx context.Context, o handlers.Options, l *Listeners, connections int) []boundServer {
	if l.grpc == nil {
		return nil
	}
	var secure *tls.Config
	if l.certificates != nil {
		secure = l.certificates.Config()
	}
	bounds := s.options.Connections
	bounds.MaxConnections, bounds.Logger = connections, s.logger
	options := s.envoyOptions(o)
	options.Running, options.TLS = ctx, secure
	options.AccessLog, options.Observe = o.AccessLog, s.countCall
	return []boundServer{{
		server:   envoy.New(options),
		listener: wire.NewBounded(l.grpc, bounds, envoy.Streams),
	}}
}

// countCall counts an answered call over gRPC.
func (s *Instance) countCall(c envoy.Observed) {
	s.metrics.CountCall(c.Route, c.Status)
	if c.Refused != "" {
		s.metrics.CountRefusal(c.Refused)
	}
}

// rateLimits returns the answers to requests of Envoy's Rate Limit Service over HTTP.
func (s *Instance) rateLimits(o handlers.Options) handlers.RateLimits {
	return envoy.NewJSON(s.envoyOptions(o))
}

func (s *Instance) envoyOptions(o handlers.Options) envoy.Options {
	options := envoy.Options{
		Limiter: o.Limiter, Buckets: o.Reader, Admission: o.Auth.Admission, Proxies: o.Auth.Proxies(), Ready: o.Ready,
		Logger: s.logger,
		Work:   s.options.CheckTimeout,
	}
	if s.options.Gates != nil {
		options.Gates = s.options.Gates
	}
	return options
}
