// Package envoy owns the questions of Envoy over gRPC: its Rate Limit Service and its external authorization, version
// 3, beside health and reflection. It must not know how a check is decided, SQL, or how HTTP is served.
package envoy

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"velocityd/handlers/admission"
	"velocityd/handlers/gate"
	"velocityd/service"
)

const (
	// Streams is how many calls one connection may have under way at once.
	Streams = 64
	// maxMessage is the longest message that a caller may send, in bytes: a body that a gate reads, and twice what Envoy
	// takes of headers by default, because the path of a request is there twice. A longer one is an error, at which Envoy
	// may let the request pass.
	maxMessage = gate.MaxBody + 2*60<<10
	// window is how many unread bytes a connection may hold, in all its calls.
	window           = 64 << 10
	handshakeTimeout = 5 * time.Second
	idleTimeout      = 10 * time.Minute
	// callTimeout is how long a call may last beside its Work, as over HTTP: its message has to come, and its answer has
	// to be taken.
	callTimeout = 15 * time.Second
	// A caller that does not answer pings is gone. It may send pings as often as leastPing itself.
	pingAfter, pingTimeout, leastPing = 30 * time.Second, 10 * time.Second, 10 * time.Second
)

// Options are the parts of New. All but Gates, Proxies, TLS, Logger, AccessLog and Observe are required.
type Options struct {
	// Limiter decides the checks. It must normalise their keys, and end each call in bounded time.
	Limiter service.Checker
	// Work is the longest time that Limiter takes for a call.
	Work time.Duration
	// Buckets answers peeks.
	Buckets Buckets
	// Gates has the gates and domains. Nil means that there are none.
	Gates Gates
	// Proxies may say from which address an end user's request comes.
	Proxies admission.Proxies
	// Admission says which callers are answered.
	Admission admission.Admission
	// Ready returns nil if checks can be decided now. It must end in bounded time.
	Ready func(context.Context) error
	// Running ends when the service begins to stop. Watchers of its health then get that state, and their streams end.
	Running context.Context
	// TLS makes connections speak TLS. Nil means plain text.
	TLS *tls.Config
	// Logger gets a line for each fault that a call meets and for each call that is refused, the same one at most once a
	// second.
	Logger *slog.Logger
	// AccessLog makes Logger get a line for each call of the two services, too.
	AccessLog bool
	// Observe is called for each call of the two services when it has been answered. Nil means no call.
	Observe func(Observed)
}

// Observed is an answered call without its content.
type Observed struct {
	Route string // the full name of the method
	// Status is the code of gRPC by its name. A wrong question of external authorization has its code, though it is
	// answered.
	Status string
	// Refused is the code of the problem if the call was refused before the Limiter saw its check; otherwise it is empty.
	Refused string
}

// Server answers Envoy. It is a server of New.
type Server struct{ inner *grpc.Server }

// New returns a server that is not started.
func New(o Options) *Server {
	d := &backend{options: o, faults: &admission.FaultLog{Logger: o.Logger}}
	settings := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(Streams), grpc.ConnectionTimeout(handshakeTimeout),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window), grpc.WaitForHandlers(true),
		grpc.UnaryInterceptor(d.recovered),
		grpc.InTapHandle(d.bound),
		grpc.KeepaliveParams(
			keepalive.ServerParameters{MaxConnectionIdle: idleTimeout, Time: pingAfter, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPing, PermitWithoutStream: true}),
	}
	if o.TLS != nil {
		settings = append(settings, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	s := &Server{inner: grpc.NewServer(settings...)}
	ratelimit.RegisterRateLimitServiceServer(s.inner, &limits{backend: d})
	auth.RegisterAuthorizationServer(s.inner, &authorization{backend: d})
	grpc_health_v1.RegisterHealthServer(s.inner, &health{ready: o.Ready, running: o.Running})
	reflection.Register(s.inner)
	return s
}

// Serve answers on the connections of a listener until Shutdown or Close, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.inner.Serve(l); err != nil {
		return fmt.Errorf("serve gRPC at %s: %w", l.Addr(), err)
	}
	return nil
}

// Shutdown accepts no more connections and calls, and waits for the calls in flight until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		s.inner.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends all connections at once.
func (s *Server) Close() error {
	s.inner.Stop()
	return nil
}
