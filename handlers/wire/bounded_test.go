package wire_test

import (
	"net"
	"testing"

	"velocityd/handlers/wire"
)

func TestExcessConnectionIsClosedUntilAnotherEnds(t *testing.T) {
	t.Parallel()
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := wire.NewBounded(inner, wire.Options{MaxConnections: 20}, 16)
	t.Cleanup(func() { _ = l.Close() })
	accepted := make(chan net.Conn, 3)
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	dial()
	first := <-accepted
	if _, err := dial().Read(make([]byte, 1)); err == nil { // waits until it is closed
		t.Error("a connection too many is served")
	}
	_, _ = first.Close(), first.Close() // gives its places back once
	dial()
	<-accepted
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("a connection too many is served after another one has ended")
	}
}
