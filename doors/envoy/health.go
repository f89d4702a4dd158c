package envoy

import (
	"context"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// watchPause is the time between two looks at the readiness for a watcher.
const watchPause = time.Second

// health answers as /readyz does, for the whole server, for its services, and for the name by which
// envoyproxy/ratelimit has its own.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
	ready   func(context.Context) error
	running context.Context
}

func knows(service string) bool {
	switch service {
	case "", "ratelimit", ratelimit.RateLimitService_ServiceDesc.ServiceName, auth.Authorization_ServiceDesc.ServiceName:
		return true
	}
	return false
}

// Check implements grpc_health_v1.HealthServer.
func (h *health) Check(
	ctx context.Context, request *grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	if !knows(request.GetService()) {
		return nil, status.Error(codes.NotFound, "there is no such service")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: h.now(ctx)}, nil
}

// Watch implements grpc_health_v1.HealthServer. It ends when the service begins to stop.
func (h *health) Watch(
	request *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse],
) error {
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	last := grpc_health_v1.HealthCheckResponse_UNKNOWN
	for {
		state := grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
		if knows(request.GetService()) {
			state = h.now(stream.Context())
		}
		if state != last {
			if err := stream.Send(&grpc_health_v1.HealthCheckResponse{Status: state}); err != nil {
				return err
			}
			last = state
		}
		if h.running.Err() != nil {
			return status.Error(codes.Unavailable, "the service is stopping")
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-h.running.Done():
		case <-tick.C:
		}
	}
}

func (h *health) now(ctx context.Context) grpc_health_v1.HealthCheckResponse_ServingStatus {
	if h.running.Err() != nil || h.ready(ctx) != nil {
		return grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_SERVING
}
