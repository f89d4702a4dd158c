package envoy_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"velocityd/doors/envoy"
	"velocityd/service"
)

func TestHealthIsReadinessAndWatchersLeaveAtStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var isAway atomic.Bool
		running, stop := context.WithCancel(t.Context())
		o := options(t)
		o.Running, o.Ready = running, func(context.Context) error {
			if isAway.Load() {
				return service.ErrAway
			}
			return nil
		}
		conn, server := dialInside(t, o)
		ask := grpc_health_v1.NewHealthClient(conn)
		is := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
			t.Helper()
			for _, name := range []string{
				"", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService",
				"envoy.service.auth.v3.Authorization",
			} {
				if got, err := ask.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name}); err != nil ||
					got.GetStatus() != want {
					t.Errorf("%q: %v %v", name, got, err)
				}
			}
		}
		is(grpc_health_v1.HealthCheckResponse_SERVING)
		watch, err := ask.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := watch.Recv(); err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Fatalf("%v %v", got, err)
		}
		isAway.Store(true)
		is(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
		if got, err := watch.Recv(); err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			t.Fatalf("%v %v", got, err)
		}
		stop()
		if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("the watcher is told %v", err)
		}
		if _, err := ask.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "x"}); status.Code(
			err) != codes.NotFound {
			t.Errorf("another service: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("the server does not stop: %v", err)
		}
	})
}

func TestCallsWithoutMessageEndAndFreeTheirPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var isAway atomic.Bool
		o := options(t)
		o.Work, o.Ready = 5*time.Second, func(context.Context) error {
			if isAway.Load() {
				return service.ErrAway
			}
			return nil
		}
		conn, _ := dialInside(t, o)
		watch, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := watch.Recv(); err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Fatalf("%v %v", got, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var silent []grpc.ClientStream
		methods := []string{
			ratelimit.RateLimitService_ShouldRateLimit_FullMethodName, auth.Authorization_Check_FullMethodName,
			grpc_health_v1.Health_Check_FullMethodName, grpc_reflection_v1.ServerReflection_ServerReflectionInfo_FullMethodName,
		}
		for i := range envoy.Streams - 1 {
			stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
				methods[i%len(methods)])
			if err != nil {
				t.Fatal(err)
			}
			silent = append(silent, stream)
		}
		began := time.Now()
		got, err := ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, request(of("zone_1", "alice")))
		if err != nil || got.GetOverallCode() != ratelimit.RateLimitResponse_OK || time.Since(began) > 20*time.Second {
			t.Fatalf("a call that waits for a place gets %v, %v after %s", got, err, time.Since(began))
		}
		for i, stream := range silent {
			if err := stream.RecvMsg(new(ratelimit.RateLimitResponse)); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("%s without a message ends with %v", methods[i%len(methods)], err)
			}
		}
		isAway.Store(true)
		if got, err := watch.Recv(); err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("the watcher gets %v, %v", got, err)
		}
	})
}
