package vitess

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports of the cluster, counted from its base.
const (
	etcdPort       = 0
	etcdPeerPort   = 1
	vtorcPort      = 2
	vtctldPort     = 3
	vtctldGRPCPort = 4
	vtgateSQLPort  = 6 // and 7
	vtgatePort     = 8 // and 9, by HTTP
	vtgateGRPCPort = 10
	tabletPort     = 15 // three for each tablet
	portsInAll     = 100
)

// tabletPorts are those of one tablet.
type tabletPorts struct{ mysqld, http, grpc int }

// portsOf returns the ports of the tablet of a number, counted from 0.
func portsOf(base, n int) tabletPorts {
	first := base + tabletPort + 3*n
	return tabletPorts{mysqld: first, http: first + 1, grpc: first + 2}
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

// claimPorts returns a base whose hundred ports were free a moment ago: base itself, or any
// if it is 0.
func claimPorts(ctx context.Context, base int) (int, error) {
	if base != 0 {
		return base, portsFree(ctx, base)
	}
	const first, hundreds, tries = 16_000, 160, 50
	var err error
	for range tries {
		base = first + portsInAll*rand.IntN(hundreds)
		if err = portsFree(ctx, base); err == nil {
			return base, nil
		}
	}
	return 0, err
}

func portsFree(ctx context.Context, base int) error {
	for port := base; port < base+portsInAll; port++ {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address(port))
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("port %d of %d to %d is not free: %w", port, base, base+portsInAll-1, err), ctx.Err())
		}
	}
	return nil
}
