package session

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"velocityd/tools/enginetest"
)

// killerOf returns the killer of a DSN, and a pool of sessions that it may end.
func killerOf(t *testing.T, dsn string) (*Killer, *sql.DB) {
	t.Helper()
	o := Options{DSN: dsn, LockWait: time.Second}
	own, err := Open(o, new(Database), ForOthers, 1)
	if err != nil {
		t.Fatal(err)
	}
	k := NewKiller(own)
	t.Cleanup(func() {
		k.Close()
		_ = own.Close()
	})
	others, err := Open(o, new(Database), ForChecks, 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = others.Close() })
	return k, others
}

// sessionOf takes a connection out of a pool until the test's end.
func sessionOf(t *testing.T, pool *sql.DB) (*sql.Conn, *Conn) {
	t.Helper()
	conn, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	own, err := Of(conn)
	if err != nil {
		t.Fatal(err)
	}
	return conn, own
}

// awaitEnd has a killer end the session of a connection, and waits until that is gone.
func awaitEnd(t *testing.T, k *Killer, conn *Conn) {
	t.Helper()
	gone := make(chan struct{})
	k.end(conn, func() { close(gone) })
	enginetest.Eventually(t, "the session is gone", func() bool {
		select {
		case <-gone:
			return true
		default:
			return false
		}
	})
}

// TestSessionIsEndedOnItsOwnServer has two servers, whose sessions have the same ids. One
// is killed then, after which it is unknown whether a session of it is still there.
func TestSessionIsEndedOnItsOwnServer(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		ports := [2]int{enginetest.FreePort(t), enginetest.FreePort(t)}
		start := func(port int) func() {
			server := engine.Private(t, t.TempDir(), "--skip-networking=0", fmt.Sprint("--port=", port),
				"--bind-address=127.0.0.1")
			d := enginetest.Empty(t, enginetest.AdminDSN(server, ""))
			enginetest.Exec(t, d.SQL, "CREATE DATABASE several")
			enginetest.Exec(t, d.SQL, "CREATE USER several@'127.0.0.1'")
			enginetest.Exec(t, d.SQL, "GRANT ALL ON several.* TO several@'127.0.0.1'")
			return func() { enginetest.Kill(server) }
		}
		start(ports[0])
		kill := start(ports[1])
		k, pool := killerOf(t, fmt.Sprintf("several@tcp(127.0.0.1:%d,127.0.0.1:%d)/several", ports[0], ports[1]))
		var onSecond []*Conn
		var others []*sql.Conn
		for range 6 {
			conn, own := sessionOf(t, pool)
			if own.address == fmt.Sprint("127.0.0.1:", ports[1]) {
				onSecond = append(onSecond, own)
			}
			if len(onSecond) != 1 || onSecond[0] != own {
				others = append(others, conn)
			}
		}
		if len(onSecond) != 3 {
			t.Fatalf("%d of 6 connections lead to the second server", len(onSecond))
		}
		awaitEnd(t, k, onSecond[0])
		for _, conn := range others {
			if err := conn.PingContext(t.Context()); err != nil {
				t.Errorf("another session: %v", err)
			}
		}
		if err := onSecond[0].Ping(t.Context()); err == nil {
			t.Error("the session was not ended")
		}
		kill()
		awaitEnd(t, k, onSecond[1])
		k.Close()
		awaitEnd(t, k, onSecond[2])
	})
}

// TestReusedIDIsNotTakenForGoneSession asks for the end of a session that is older
// than its server, and of one of another server, as after a failover behind one name.
func TestReusedIDIsNotTakenForGoneSession(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		k, pool := killerOf(t, engine.Database(t).DSN)
		conn, own := sessionOf(t, pool)
		older, elsewhere := *own, *own
		older.since = time.Time{}
		elsewhere.serverID += "1"
		for _, gone := range []*Conn{&older, &elsewhere} {
			awaitEnd(t, k, gone)
			if err := conn.PingContext(t.Context()); err != nil {
				t.Errorf("another session, with the id of %+v: %v", gone, err)
			}
		}
		awaitEnd(t, k, own)
		if err := conn.PingContext(t.Context()); err == nil {
			t.Error("the session was not ended")
		}
	})
}
