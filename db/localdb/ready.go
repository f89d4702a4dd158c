package localdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// protocolVersion is the first byte of the greeting that a server sends on each
// connection.
const protocolVersion = 0x0a

// waitReady waits until the server sends its greeting on the socket. It returns an
// error if the server or ctx ends before.
func (s *Server) waitReady(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	last := errors.New("not asked yet")
	for {
		select {
		case <-s.done:
			return s.err
		case <-ctx.Done():
			return fmt.Errorf("wait for an answer on %s: %w (last: %w)", s.socket, ctx.Err(), last)
		case <-tick.C:
		}
		if last = greeted(ctx, s.socket); last == nil {
			return nil
		}
	}
}

// greeted connects and reads the first packet's header and first byte. It does NOT log
// in.
func greeted(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	if err := conn.SetReadDeadline(deadline); err != nil {
		return fmt.Errorf("read greeting: %w", err)
	}
	var packet [5]byte // three bytes of length, one of sequence, and the payload's first
	if _, err := io.ReadFull(conn, packet[:]); err != nil {
		return fmt.Errorf("read greeting: %w", err)
	}
	if packet[4] != protocolVersion {
		return fmt.Errorf("read greeting: first byte is %#x, not %#x", packet[4], protocolVersion)
	}
	return nil
}
