package db

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/dbtest"
	"velocityd/service"
	"velocityd/service/queue"
)

// hurry puts a Fallback in front of a store, so that its callers need not wait for the engine
// longer than patience. Zone 1 is answered without the database.
func hurry(store service.CheckStore, patience time.Duration) *queue.Fallback {
	f := queue.NewFallback(store, queue.FallbackOptions{After: patience})
	allow := zone(1, 5, time.Hour)
	allow.OnFailure = service.OnFailureAllow
	f.Remember([]service.Zone{allow})
	return f
}

func TestAnEngineThatCannotBeReachedIsAway(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"root@tcp(127.0.0.1:1)/x", "root@unix(/nowhere/my.sock)/x"} {
		store, err := Open(Options{DSN: dsn})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		for _, question := range [][]service.Check{check(user("alice")), check(user("alice"), user("bob"))} {
			if _, err := ask(t.Context(), store, question); !errors.Is(err, service.ErrAway) {
				t.Errorf("%s: %v, want ErrAway", dsn, err)
			}
		}
	}
}

// gate lets connections through to an engine once it is opened.
type gate struct {
	net.Listener
	engine string
	opened chan struct{}
}

// gated returns the DSN of a database behind a closed gate.
func gated(t *testing.T, d *dbtest.Database) (dsn string, g *gate) {
	t.Helper()
	cfg, err := mysql.ParseDSN(d.DSN)
	if err != nil {
		t.Fatal("parse dsn: unreadable")
	}
	if cfg.Net != "unix" {
		t.Skip("the gate speaks to a socket")
	}
	g = &gate{engine: cfg.Addr, opened: make(chan struct{})}
	// A short name: that of the test may make the folder's too long for a socket.
	cfg.Addr = filepath.Join(filepath.Dir(cfg.Addr), time.Now().Format("150405.000000"))
	if g.Listener, err = net.Listen("unix", cfg.Addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	go g.accept()
	return cfg.FormatDSN(), g
}

func (g *gate) accept() {
	for {
		client, err := g.Accept()
		if err != nil {
			return
		}
		go func() {
			defer client.Close()
			<-g.opened
			engine, err := net.Dial("unix", g.engine)
			if err != nil {
				return
			}
			defer engine.Close()
			go func() {
				defer client.Close()
				_, _ = io.Copy(client, engine)
			}()
			_, _ = io.Copy(engine, client)
		}()
	}
}

func TestNobodyWithAnotherAnswerWaitsForASlowConnectionAndTheNextCheckGetsIt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 5, time.Hour), zone(2, 5, time.Hour))
		dsn, g := gated(t, d)
		store := connect(t, &dbtest.Database{DSN: dsn}, Options{MaxConns: 2}) // one of them decides checks
		// Nobody answers, so that this ends by patience alone, on any machine.
		decision, err := ask(t.Context(), hurry(store, time.Millisecond), check(user("alice")))
		if err != nil || !decision.Degraded {
			t.Errorf("got %+v, %v, want an answer without the database", decision, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := ask(ctx, store, check(user("alice"))); !errors.Is(err, service.ErrBusy) || ctx.Err() == nil {
			t.Errorf("a caller who must wait did not: %v", err)
		}
		close(g.opened)
		decision, err = ask(t.Context(), store, check(user("alice")))
		if err != nil || decision.TxnID() == 0 {
			t.Errorf("once the engine answers: %+v, %v", decision, err)
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn"); n != 1 {
			t.Errorf("%d txns, want the one that was decided", n)
		}
	})
}

func TestAConnectionThatComesTooLateIsKeptForTheNextCall(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		dsn, g := gated(t, engine.Database(t))
		connector, err := newConnector(Options{DSN: dsn, MaxConns: 1, LockWait: time.Second, ConnectTimeout: time.Minute}, new(engineMemory), forLanes)
		if err != nil {
			t.Fatal(err)
		}
		asked := contextOf(t, time.Millisecond)
		if _, err := connector.Connect(asked); !errors.Is(err, errUnreached) {
			t.Errorf("got %v, want to be told that it takes too long", err)
		}
		close(g.opened)
		dbtest.Eventually(t, "the connection is there", func() bool { return len(connector.late) == 1 })
		conn, err := connector.Connect(asked)
		if err != nil || len(connector.late) != 0 {
			t.Errorf("the next call did not get it: %v", err)
		} else if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := connector.Close(); err != nil {
			t.Error(err)
		}
	})
}

// contextOf returns the context of a call with patience, as a store gets it.
func contextOf(t *testing.T, patience time.Duration) context.Context {
	t.Helper()
	var asked context.Context
	f := hurry(asker(func(ctx context.Context) { asked = ctx }), patience)
	if _, err := f.CheckAll(t.Context(), service.Call{Checks: check(user("alice"))}); err != nil {
		t.Fatal(err)
	}
	return asked
}

// asker is a store that shows how it is asked.
type asker func(ctx context.Context)

func (a asker) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	checks := call.Checks
	a(ctx)
	return make([]service.Decision, len(checks)), nil
}
