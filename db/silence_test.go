package db

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/dbtest"
	"velocityd/service"
)

// proxy stands between a pool and its engine and may hold back the end of what
// the engine says.
type proxy struct {
	socket   string
	withhold atomic.Bool
	mu       sync.Mutex
	clients  []net.Conn
}

// cut ends all connections at the pool's side; the engine goes on with what it
// was told.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, client := range p.clients {
		_ = client.Close()
	}
}

const tail = 5 // bytes, less than the packet that closes a CALL

func newProxy(t *testing.T, engineSocket string) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "p") //nolint:usetesting // its folder, named after the test, may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &proxy{socket: filepath.Join(dir, "p.sock")}
	listener, err := net.Listen("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			engine, err := net.Dial("unix", engineSocket)
			if err != nil {
				_ = client.Close()
				return
			}
			p.mu.Lock()
			p.clients = append(p.clients, client)
			p.mu.Unlock()
			go func() { _, _ = io.Copy(engine, client); _ = engine.Close() }()
			go p.answer(client, engine)
		}
	}()
	return p
}

func (p *proxy) answer(client, engine net.Conn) {
	defer client.Close()
	chunk := make([]byte, 64<<10)
	for {
		n, err := engine.Read(chunk)
		if err != nil {
			return
		}
		if p.withhold.Load() && n > tail {
			n -= tail
		}
		if _, err := client.Write(chunk[:n]); err != nil {
			return
		}
	}
}

func TestAnswerWhoseEndIsLostHoldsAndKeepsTheDeadline(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		d.SetZone(t, zone(1, 50, time.Hour))
		cfg, err := mysql.ParseDSN(d.DSN)
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Net != "unix" {
			t.Skip("the proxy speaks to a socket")
		}
		p := newProxy(t, cfg.Addr)
		cfg.Addr = p.socket
		pool := connect(t, &dbtest.Database{DSN: cfg.FormatDSN()}, Options{MaxConns: 1})
		hurried, patient := service.NewLimiter(NewProcStore(pool), time.Second), service.NewLimiter(NewProcStore(pool), time.Minute)
		for _, checks := range [][]service.Check{check(user("alice")), check(user("alice"), user("bob"))} {
			p.withhold.Store(true)
			asked := time.Now()
			decisions, err := hurried.CheckAll(context.Background(), checks)
			if took := time.Since(asked); took > 10*time.Second {
				t.Errorf("answered after %v, with a deadline of 1s", took)
			}
			// How much of the answer the last packet held differs: either it came
			// whole, or it is undecided.
			if err != nil && !errors.Is(err, service.ErrUndecided) {
				t.Errorf("err = %v", err)
			}
			if err == nil && (decisions[0].Blocked || decisions[0].TxnID() == 0) {
				t.Errorf("decided as %+v", decisions[0])
			}
			p.withhold.Store(false)
			if _, err := patient.CheckAll(context.Background(), checks); err != nil {
				t.Errorf("next check: %v", err)
			}
		}
	})
}

func TestConnectingHasADeadlineOfItsOwn(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() // accepts by its backlog, and never speaks
	c, err := newConnector(Options{DSN: "root@tcp(" + listener.Addr().String() + ")/x", LockWait: DefaultLockWait})
	if err != nil {
		t.Fatal(err)
	}
	// As database/sql does in the background.
	if _, err := c.Connect(context.Background()); err == nil {
		t.Error("connected to a listener that never spoke")
	}
}
