package handlerstest

import (
	"io"
	"net"
	"testing"
	"time"
)

// Pipes is a listener that accepts the ends of pipes, whose deadlines are of a synctest bubble's time. It ends when it
// is closed as a channel.
type Pipes chan net.Conn

// Accept implements net.Listener.
func (p Pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener. It does nothing.
func (p Pipes) Close() error { return nil }

// Addr implements net.Listener.
func (p Pipes) Addr() net.Addr { return &net.UnixAddr{} }

// MustWrite writes text.
func MustWrite(tb testing.TB, to io.Writer, text string) {
	tb.Helper()
	if _, err := io.WriteString(to, text); err != nil {
		tb.Fatal(err)
	}
}

// Eventually waits for a state that comes by itself.
func Eventually(tb testing.TB, state string, holds func() bool) {
	tb.Helper()
	for until := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(until) {
			tb.Fatalf("%s: not within a minute", state)
		}
	}
}
