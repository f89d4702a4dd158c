package address_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/internal/address"
)

func TestSplitNamesEachAddressOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		dsn  string
		want []string
	}{
		{"u:p@tcp(a:1)/d?x=1", []string{"u:p@tcp(a:1)/d?x=1"}},
		{"u:p@tcp(a:1,b:2)/d?x=1", []string{"u:p@tcp(a:1)/d?x=1", "u:p@tcp(b:2)/d?x=1"}},
		{"u:p@tcp(a, [::1]:2 ,c)/d", []string{"u:p@tcp(a)/d", "u:p@tcp([::1]:2)/d", "u:p@tcp(c)/d"}},
		{"u:p,(@/:@tcp6(a,b)/d", []string{"u:p,(@/:@tcp6(a)/d", "u:p,(@/:@tcp6(b)/d"}},
		{"tcp(a,b)/", []string{"tcp(a)/", "tcp(b)/"}},
		{"u@unix(/tmp/a,b.sock)/d", []string{"u@unix(/tmp/a,b.sock)/d"}},
		{"u:a,b@/d", []string{"u:a,b@/d"}},
		{"", []string{""}},
		{"a,b", []string{"a,b"}},
	} {
		if got := address.Split(tc.dsn); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.dsn, got, tc.want)
		}
	}
}

// listen answers nothing, and tells of each connection.
func listen(t *testing.T) (addr string, connected <-chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	seen := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			seen <- struct{}{}
			_ = conn.Close()
		}
	}()
	return listener.Addr().String(), seen
}

// refused is an address at which no program listens.
func refused(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func connector(t *testing.T, dsn string) *address.Connector {
	t.Helper()
	return connectorBy(t, dsn, nil)
}

// connectorBy is connector with another way to dial, if that is not nil.
func connectorBy(
	t *testing.T, dsn string, dial func(ctx context.Context, network, address string) (net.Conn, error),
) *address.Connector {
	t.Helper()
	var configs []*mysql.Config
	for _, one := range address.Split(dsn) {
		cfg, err := mysql.ParseDSN(one)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Logger, cfg.DialFunc = &mysql.NopLogger{}, dial
		configs = append(configs, cfg)
	}
	c, err := address.NewConnector(configs)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryAddressIsTriedWhenOneIsAway(t *testing.T) {
	t.Parallel()
	a, seenA := listen(t)
	b, seenB := listen(t)
	gone := refused(t)
	c := connector(t, "u@tcp("+gone+","+a+","+b+")/d")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := c.Connect(ctx) // all of them fail, so all of them are tried
	if err == nil || !strings.HasPrefix(err.Error(), "3 of 3 addresses: ") {
		t.Errorf("got %v", err)
	}
	<-seenA
	<-seenB
}

// A process that is stopped still has its connections accepted, by the system.
func TestSilentAddressLeavesTimeForNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var tried []time.Duration
		c := connectorBy(t, "u@tcp(a,b)/d", func(context.Context, string, string) (net.Conn, error) {
			tried = append(tried, time.Since(began))
			caller, _ := net.Pipe()
			return caller, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := c.Connect(ctx); err == nil || !strings.HasPrefix(err.Error(), "2 of 2 addresses: ") {
			t.Errorf("got %v, want that both were tried", err)
		}
		if want := []time.Duration{0, time.Second}; !slices.Equal(tried, want) || time.Since(began) != 2*time.Second {
			t.Errorf("tried after %v and given up after %v, want %v", tried, time.Since(began), want)
		}
	})
}
