package main

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"velocityd/bench/workload"
)

// limiter is a Rate Limit Service that answers as told.
type limiter struct {
	ratelimit.UnimplementedRateLimitServiceServer
	answer func(*ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error)
}

func (l limiter) ShouldRateLimit(
	_ context.Context, r *ratelimit.RateLimitRequest,
) (*ratelimit.RateLimitResponse, error) {
	return l.answer(r)
}

// limiting serves a Rate Limit Service, and counts connections.
func limiting(
	t *testing.T, answer func(*ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error),
) (string, *atomic.Int64) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connections := new(atomic.Int64)
	server := grpc.NewServer(grpc.MaxConcurrentStreams(perConnection))
	ratelimit.RegisterRateLimitServiceServer(server, limiter{answer: answer})
	done := make(chan error, 1)
	go func() { done <- server.Serve(counting{listener, connections}) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String(), connections
}

func TestGRPCCallersShareConnectionsAndCountEachAnswer(t *testing.T) {
	t.Parallel()
	var asked, blocked atomic.Int64
	address, connections := limiting(t, func(r *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
		d := r.GetDescriptors()
		if len(d) != 2 || d[0].GetEntries()[0].GetKey() != "zone_1" || d[1].GetEntries()[0].GetKey() != "zone_2" ||
			d[0].GetEntries()[0].GetValue() != "user-00000" || d[1].GetEntries()[0].GetValue() != "address-00000" ||
			r.GetDomain() != "bench" {
			t.Errorf("asked %v", r)
		}
		if asked.Add(1)%3 == 0 {
			blocked.Add(1)
			return &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OVER_LIMIT}, nil
		}
		return &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OK}, nil
	})
	o := order(workload.RPC, address, workload.Draw{Zone: 1, Prefix: "user-", Of: 1},
		workload.Draw{Zone: 2, Prefix: "address-", Of: 1})
	o.Callers = perConnection + 1
	sum := carryOut(t, o)
	if sum.Answers() != asked.Load() || sum.Blocked != blocked.Load() || sum.Answers() == 0 || sum.Errors+sum.Busy != 0 {
		t.Errorf("%d asked, %d blocked: %+v", asked.Load(), blocked.Load(), sum)
	}
	if got := connections.Load(); got != 2 {
		t.Errorf("%d connections for %d callers", got, o.Callers)
	}
}

func TestAnErrorOverGRPCIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code codes.Code
		busy bool
	}{"busy": {codes.Unavailable, true}, "fault": {codes.Internal, false}, "unknown": {codes.OK, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, _ := limiting(t, func(*ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
				return &ratelimit.RateLimitResponse{}, status.Error(c.code, name)
			})
			sum := carryOut(t, order(workload.RPC, address, workload.Draw{Zone: 1, Prefix: "user-", Of: 1}))
			if sum.Answers() != 0 || (sum.Busy > 0) != c.busy || (sum.Errors > 0) == c.busy {
				t.Errorf("%+v", sum)
			}
		})
	}
}
