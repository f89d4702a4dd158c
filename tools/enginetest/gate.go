package enginetest

import (
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Gate lets connections through to an engine once it is opened.
type Gate struct {
	net.Listener
	engine string
	// Opened is to be closed by the test.
	Opened chan struct{}
}

// Gated returns the DSN of a database behind a closed gate.
func Gated(t *testing.T, d *Database) (dsn string, g *Gate) {
	t.Helper()
	cfg, err := mysql.ParseDSN(d.DSN)
	if err != nil {
		t.Fatal("parse dsn: unreadable")
	}
	if cfg.Net != "unix" {
		t.Skip("the gate speaks to a socket")
	}
	g = &Gate{engine: cfg.Addr, Opened: make(chan struct{})}
	// A short name: that of the test may make the folder's too long for a socket.
	cfg.Addr = filepath.Join(filepath.Dir(cfg.Addr), time.Now().Format("150405.000000"))
	if g.Listener, err = net.Listen("unix", cfg.Addr); err != nil {
		t.Fatal(err)
	}
	AtEnd(t, func() { _ = g.Close() })
	go g.accept()
	return cfg.FormatDSN(), g
}

func (g *Gate) accept() {
	for {
		client, err := g.Accept()
		if err != nil {
			return
		}
		go func() {
			defer client.Close()
			<-g.Opened
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
