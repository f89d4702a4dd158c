package session

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/internal/engine"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

func TestConnectingHasADeadlineOfItsOwn(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() // accepts by its backlog, and never speaks
	o := Options{DSN: "root@tcp(" + listener.Addr().String() + ")/x", LockWait: DefaultLockWait}
	if c, err := NewConnector(o, new(Database), ForOthers); err != nil || c.timeout != DefaultConnectTimeout {
		t.Errorf("%v for a connection, %v", c.timeout, err)
	}
	o.ConnectTimeout = 100 * time.Millisecond
	c, err := NewConnector(o, new(Database), ForOthers)
	if err != nil {
		t.Fatal(err)
	}
	// As database/sql does in the background.
	if _, err := c.Connect(context.Background()); err == nil {
		t.Error("connected to a listener that never spoke")
	}
}

func TestSessionThatCannotBePinnedIsRefused(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		c, err := NewConnector(Options{DSN: engine.Empty(t).DSN, LockWait: DefaultLockWait}, new(Database), ForChecks)
		if err != nil {
			t.Fatal(err)
		}
		c.wanted["time_zone"] = "+01:00" // as if a proxy had bent it
		_, err = c.Connect(context.Background())
		if err == nil || !strings.Contains(err.Error(), "time_zone") {
			t.Errorf("err = %v, want one that names time_zone", err)
		}
	})
}

func TestPortableSessionsRefuseToCountByOlderState(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]error{"ON": errStaleCounts, "OFF": nil, "": nil} {
		s := &Conn{Engine: engine.TiDB}
		if err := s.read(map[string]string{"tidb_rc_read_check_ts": value, "max_allowed_packet": "1024"}, nil); !errors.Is(
			err, want) {
			t.Errorf("tidb_rc_read_check_ts = %q: %v, want %v", value, err, want)
		}
	}
}

func TestLateConnectionIsKeptForNextCall(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		dsn, g := enginetest.BehindBarrier(t, engine.Database(t))
		connector, err := NewConnector(Options{DSN: dsn, MaxConns: 1, LockWait: time.Second, ConnectTimeout: time.Minute},
			new(Database),
			ForChecks)
		if err != nil {
			t.Fatal(err)
		}
		asked := WithPatience(t.Context(), time.Millisecond)
		if _, err := connector.Connect(asked); !errors.Is(err, ErrUnreached) {
			t.Errorf("got %v, want to be told that it takes too long", err)
		}
		close(g.Opened)
		enginetest.Eventually(t, "the connection is there", func() bool { return len(connector.late) == 1 })
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

func TestMain(m *testing.M) { enginetest.Main(m) }

func TestWhatWasNeverSentIsNeverUndecided(t *testing.T) {
	t.Parallel()
	for _, f := range faults() {
		for _, n := range f.numbers {
			if kind := FaultOf(fmt.Errorf("%w: no connection: %w", ErrUnsent, &mysql.MySQLError{Number: n})).Kind; errors.Is(
				kind,
				service.ErrUndecided) {
				t.Errorf("%d while connecting: %v", n, kind)
			}
		}
	}
}

func TestAnAnswerOfAnotherShapeIsAMisfit(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		c, err := NewConnector(Options{DSN: engine.Empty(t).DSN, LockWait: DefaultLockWait}, new(Database), ForChecks)
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]error{
			"SELECT 1; SELECT 2;":           nil,
			"SELECT 1, 2; SELECT 3;":        ErrMisfit, // a column more
			"SELECT 1;":                     ErrMisfit, // a result less
			"SELECT 1; SELECT 2; SELECT 3;": ErrMisfit, // a result more
		} {
			conn, err := c.Connect(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			own := conn.(*Conn)
			r := own.Reading()
			r.SQL(text)
			for range 2 {
				r.Each(1, func([]driver.Value) error { return nil })
			}
			if err := r.Send(t.Context(), own); !errors.Is(err, want) || EndsSession(err) != (want != nil) {
				t.Errorf("%s: got %v, want %v", text, err, want)
			}
			if err := own.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
