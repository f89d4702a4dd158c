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

// dialPool dials as the driver does, and notes the address.
func dialPool(ctx context.Context, network, address string) (net.Conn, error) {
	if s, ok := ctx.Value(dialling{}).(*Conn); ok {
		s.address = address
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// dialLane dials as the driver does, and lets the connection keep its socket.
func dialLane(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := dialPool(ctx, network, address)
	if s, ok := ctx.Value(dialling{}).(*Conn); ok {
		s.socket = conn
	}
	return conn, err
}

// Within does something on a lane's connection that ends, at the latest, at the
// deadline of ctx, and hands it a context that does not end. The deadline is the
// socket's: for a context that ends the driver would wake a goroutine of its own
// twice for each packet. What ctx is cancelled for besides is NOT looked at.
func (s *Conn) Within(ctx context.Context, do func(context.Context) error) error {
	deadline, limited := ctx.Deadline()
	if !limited || s.socket == nil {
		return do(ctx)
	}
	if err := s.socket.SetDeadline(deadline); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrBadConn, err)
	}
	err := do(context.WithoutCancel(ctx))
	if err != nil && !time.Now().Before(deadline) {
		<-ctx.Done() // its timer may be later than the socket's, and callers ask ctx why do has failed
	}
	_ = s.socket.SetDeadline(time.Time{}) // fails only where nothing is sent any more
	return err
}
