package session

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net"
	"time"
)

// dialling is the key of the connection that a context is dialled for.
type dialling struct{}

// dialForOthers dials as the driver does, and notes the address.
func dialForOthers(ctx context.Context, network, address string) (net.Conn, error) {
	if s, ok := ctx.Value(dialling{}).(*Conn); ok {
		s.address = address
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// dialForChecks dials as the driver does, and lets the connection keep its socket.
func dialForChecks(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := dialForOthers(ctx, network, address)
	if s, ok := ctx.Value(dialling{}).(*Conn); ok {
		s.socket = conn
	}
	return conn, err
}

// Within calls do, which ends at the latest at the deadline of ctx, and hands it a context that does
// not end: see Bound.
func (s *Conn) Within(ctx context.Context, do func(context.Context, *Conn) error) error {
	bound, err := s.Bound(ctx)
	if err == nil {
		err = do(bound, s)
		s.Unbound(ctx, err)
	}
	return err
}

// Bound gives a connection for checks the deadline of ctx until Unbound, and returns a context that does
// not end. The deadline is the socket's: for a context that ends the driver would wake a goroutine
// twice for each packet. The connection does NOT see that ctx is cancelled earlier.
func (s *Conn) Bound(ctx context.Context) (context.Context, error) {
	deadline, limited := ctx.Deadline()
	if !limited || s.socket == nil {
		return ctx, nil
	}
	if err := s.socket.SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrBadConn, err)
	}
	return context.WithoutCancel(ctx), nil
}

// Unbound takes the deadline of ctx from the connection. err is that of the work under Bound.
func (s *Conn) Unbound(ctx context.Context, err error) {
	deadline, limited := ctx.Deadline()
	if !limited || s.socket == nil {
		return
	}
	if err != nil && !time.Now().Before(deadline) {
		<-ctx.Done() // its timer may be later than the socket's, and callers ask ctx why the work has failed
	}
	_ = s.socket.SetDeadline(time.Time{}) // fails only where nothing is sent any more
}
