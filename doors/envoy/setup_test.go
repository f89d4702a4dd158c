package envoy_test

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"velocityd/doors/envoy"
	"velocityd/handlers/admission"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/memory"
	"velocityd/tools/servicetest"
)

// failing is a Checker that ends in an error.
type failing struct{ err error }

func (f failing) CheckAll(context.Context, []service.Check) ([]service.Decision, error) {
	return nil, f.err
}

// options returns those of a server with the rules in memory: zone 1 has two attempts an hour, zone 2 five in 90 s, and
// zone 3 in the mode shadow none, all of them for users.
func options(t *testing.T) envoy.Options {
	t.Helper()
	store, names := memory.New(), service.KeyRule{Kind: service.KeyUsername}
	for _, z := range []service.Zone{
		{ID: 1, Rate: 2, Window: time.Hour, Keys: names},
		{ID: 2, Rate: 5, Window: 90 * time.Second},
		{ID: 3, Rate: 0, Window: time.Hour, Mode: service.ModeShadow},
	} {
		store.SetZone(t, z)
	}
	limiter := service.NewLimiter(store, service.LimiterOptions{Zones: store, Timeout: 10 * time.Second})
	return envoy.Options{Limiter: limiter, Buckets: store}
}

// closed returns an admission of callers with a token alone, and the store to add tokens to.
func closed(t *testing.T) (*servicetest.Credentials, admission.Admission) {
	t.Helper()
	known := &servicetest.Credentials{}
	cache := access.NewCache(known, access.Options{})
	t.Cleanup(cache.Close)
	return known, admission.Admission{Callers: cache}
}

// dial starts a server on the loopback, and returns a connection to it.
func dial(t *testing.T, o envoy.Options) (*grpc.ClientConn, *envoy.Server) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return dialOn(t, o, listener, listener.Addr().String())
}

// dialInside is dial without a socket, for a bubble.
func dialInside(t *testing.T, o envoy.Options) (*grpc.ClientConn, *envoy.Server) {
	t.Helper()
	listener := bufconn.Listen(64 << 10)
	dialer := grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) })
	return dialOn(t, o, listener, "passthrough:inside", dialer)
}

func dialOn(
	t *testing.T, o envoy.Options, listener net.Listener, target string, options ...grpc.DialOption,
) (*grpc.ClientConn, *envoy.Server) {
	t.Helper()
	if o.Ready == nil {
		o.Ready = func(context.Context) error { return nil }
	}
	if o.Running == nil {
		o.Running = t.Context()
	}
	server := envoy.New(o)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(target, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		_ = server.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return conn, server
}

// of returns a descriptor of pairs of keys and values.
func of(pairs ...string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	for pair := range slices.Chunk(pairs, 2) {
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: pair[0], Value: pair[1]})
	}
	return d
}

func request(descriptors ...*common.RateLimitDescriptor) *ratelimit.RateLimitRequest {
	return &ratelimit.RateLimitRequest{Domain: "login", Descriptors: descriptors}
}

// peek returns a descriptor whose bucket is looked at.
func peek(pairs ...string) *common.RateLimitDescriptor {
	d := of(pairs...)
	d.HitsAddend = wrapperspb.UInt64(0)
	return d
}
