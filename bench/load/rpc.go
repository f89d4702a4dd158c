package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// perConnection is how many callers share a connection, as the requests of one of Envoy's threads do. velocityd lets
// that many calls be under way on one connection.
const perConnection = 64

var errUnreachable = errors.New("no connection")

// rpcConnections asks Envoy's Rate Limit Service over gRPC.
type rpcConnections struct {
	address string
	lock    sync.Mutex
	conn    *grpc.ClientConn // the newest one
	callers int              // that share it
}

// dial is a dial. Connections stay open until the process ends.
func (d *rpcConnections) dial(ctx context.Context, _ time.Time) (caller, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if d.conn == nil || d.callers == perConnection {
		conn, err := grpc.NewClient(d.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, fmt.Errorf("connect to %s: %w", d.address, err)
		}
		if err := connect(ctx, conn); err != nil {
			return nil, errors.Join(fmt.Errorf("connect to %s: %w", d.address, err), conn.Close())
		}
		d.conn, d.callers = conn, 0
	}
	d.callers++
	return &rpcCaller{conn: d.conn, request: &ratelimit.RateLimitRequest{Domain: "bench"}}, nil
}

// connect connects at once. By itself a client of grpc-go connects with its first call.
func connect(ctx context.Context, conn *grpc.ClientConn) error {
	conn.Connect()
	for {
		switch state := conn.GetState(); {
		case state == connectivity.Ready:
			return nil
		case state == connectivity.TransientFailure:
			return errUnreachable
		case !conn.WaitForStateChange(ctx, state):
			return ctx.Err()
		}
	}
}

type rpcCaller struct {
	conn     *grpc.ClientConn
	request  *ratelimit.RateLimitRequest
	response ratelimit.RateLimitResponse
}

func (*rpcCaller) close() {}

func (c *rpcCaller) ask(ctx context.Context, buckets []bucket) (answer, error) {
	for len(c.request.Descriptors) < len(buckets) {
		c.request.Descriptors = append(c.request.Descriptors,
			&common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{}}})
	}
	for i, b := range buckets {
		entry := c.request.Descriptors[i].Entries[0]
		entry.Key, entry.Value = zoneEntry+strconv.Itoa(b.zone), string(b.key)
	}
	err := c.conn.Invoke(ctx, ratelimit.RateLimitService_ShouldRateLimit_FullMethodName, c.request, &c.response)
	switch {
	case status.Code(err) == codes.Unavailable:
		return answer{busy: 1}, nil
	case err != nil:
		return answer{}, err
	}
	switch code := c.response.GetOverallCode(); code {
	case ratelimit.RateLimitResponse_OK:
		return decided(false), nil
	case ratelimit.RateLimitResponse_OVER_LIMIT:
		return decided(true), nil
	default:
		return answer{}, fmt.Errorf("code %v", code)
	}
}
