package socket_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"velocityd/socket"
)

// The networks whose sockets connections are made of.
func networks() []string { return []string{"tcp", "unix"} }

// pair returns both ends of a connection over a network.
func pair(network string) (near, far net.Conn, stop func(), err error) {
	dir, err := os.MkdirTemp("", "socket-")
	if err != nil {
		return nil, nil, nil, err
	}
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(dir, "s")
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), network, address)
	if err != nil {
		return nil, nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	defer func() { _ = listener.Close() }()
	dialled, err := new(net.Dialer).DialContext(context.Background(), network, listener.Addr().String())
	if err != nil {
		return nil, nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	accepted, err := listener.Accept()
	if err != nil {
		return nil, nil, nil, errors.Join(err, dialled.Close(), os.RemoveAll(dir))
	}
	near, far = socket.New(dialled), socket.New(accepted)
	return near, far, func() {
		_, _, _ = near.Close(), far.Close(), os.RemoveAll(dir)
	}, nil
}

// connected returns both ends of a connection over a network, for the time of a test.
func connected(t *testing.T, network string) (near, far *socket.Conn) {
	t.Helper()
	a, b, stop, err := pair(network)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	near, isSocket := a.(*socket.Conn)
	if !isSocket {
		t.Fatalf("New made a %T of a socket", a)
	}
	return near, b.(*socket.Conn)
}

// overEach runs a claim on connections over each network.
func overEach(t *testing.T, claim func(t *testing.T, near, far *socket.Conn)) {
	t.Helper()
	for _, network := range networks() {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			near, far := connected(t, network)
			claim(t, near, far)
		})
	}
}

func TestConnKeepsTheContractOfNetConn(t *testing.T) {
	t.Parallel()
	for _, network := range networks() {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) { return pair(network) })
		})
	}
}

func TestNewLeavesWhatIsNoSocketAsItIs(t *testing.T) {
	t.Parallel()
	pipe, other := net.Pipe()
	defer func() { _, _ = pipe.Close(), other.Close() }()
	if got := socket.New(pipe); got != pipe {
		t.Errorf("New made a %T of a pipe", got)
	}
}

// A body of some megabytes does not fit into the kernel's buffers, so that both sides must wait.
func TestConnMovesMoreThanTheKernelHolds(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, near, far *socket.Conn) {
		text := strings.Repeat("velocity", 1<<20)
		sent := make(chan error, 1)
		go func() {
			n, err := near.Write([]byte(text))
			if err == nil && n != len(text) {
				err = io.ErrShortWrite
			}
			sent <- errors.Join(err, near.CloseWrite())
		}()
		got, err := io.ReadAll(far)
		if err != nil || string(got) != text {
			t.Errorf("%d bytes came of %d, or others: %v", len(got), len(text), err)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
}

func TestWriteTellsHowMuchWasSentBeforeItsDeadline(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, near, far *socket.Conn) {
		if err := near.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, err := near.Write(make([]byte, 64<<20))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%d bytes, %v, want the deadline's error", n, err)
		}
		if err := near.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(far); len(got) != n || err != nil {
			t.Errorf("%d bytes came of the %d that were sent: %v", len(got), n, err)
		}
	})
}

func TestConnReadsAndWritesWithoutMemory(t *testing.T) { //nolint:paralleltest // counts allocations
	near, far := connected(t, "unix")
	message := []byte("may this attempt go ahead?")
	space := make([]byte, len(message))
	allocations := testing.AllocsPerRun(100, func() {
		if _, err := near.Write(message); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(far, space); err != nil {
			t.Error(err)
		}
	})
	if allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
}

func TestIsQuietTellsWhatTheOtherSideDid(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, near, far *socket.Conn) {
		if !near.IsQuiet() {
			t.Error("a new connection is not quiet")
		}
		if _, err := far.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		await(t, "a byte that was sent", func() bool { return !near.IsQuiet() })
		if err := near.Close(); err != nil {
			t.Fatal(err)
		}
		await(t, "the end of the connection", func() bool { return !far.IsQuiet() })
		if near.IsQuiet() {
			t.Error("a closed connection is quiet")
		}
	})
}

// await asks until something is so.
func await(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !isSo(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// net/http and the driver look at the operation's name and at what is wrapped.
func TestErrorsAreThoseOfPackageNet(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		do        func(near, far *socket.Conn) error
		operation string
		is        error
	}{
		{"a read after its deadline", func(near, _ *socket.Conn) error {
			_ = near.SetReadDeadline(time.Unix(1, 0))
			_, err := near.Read(make([]byte, 1))
			return err
		}, "read", os.ErrDeadlineExceeded},
		{"a write after Close", func(near, _ *socket.Conn) error {
			_ = near.Close()
			_, err := near.Write([]byte("x"))
			return err
		}, "write", net.ErrClosed},
		{"a read of a connection that was reset", func(near, far *socket.Conn) error {
			_ = far.Conn.(*net.TCPConn).SetLinger(0)
			_ = far.Close()
			_, err := near.Read(make([]byte, 1))
			return err
		}, "read", syscall.ECONNRESET},
		{"a write to a connection that has ended", func(near, far *socket.Conn) (err error) {
			_ = far.Conn.(*net.TCPConn).SetLinger(0)
			_ = far.Close()
			for deadline := time.Now().Add(10 * time.Second); err == nil && time.Now().Before(deadline); {
				_, err = near.Write([]byte("x"))
			}
			_, err = near.Write([]byte("x"))
			return err
		}, "write", syscall.EPIPE},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			near, far := connected(t, "tcp")
			err := test.do(near, far)
			var outer *net.OpError
			if !errors.As(err, &outer) || outer.Op != test.operation || !errors.Is(err, test.is) {
				t.Errorf("%v (%T), want a net.OpError of %s that is %v", err, err, test.operation, test.is)
			}
		})
	}
}
