package enginetest

import (
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Barrier lets connections through to an engine once it is opened.
type Barrier struct {
	net.Listener
	engine string
	// Opened is to be closed by the test.
	Opened chan struct{}
}

// BehindBarrier returns the DSN of a database behind a closed barrier.
func BehindBarrier(t *testing.T, d *Database) (dsn string, b *Barrier) {
	t.Helper()
	cfg, err := mysql.ParseDSN(d.DSN)
	if err != nil {
		t.Fatal("parse dsn: unreadable")
	}
	if cfg.Net != "unix" {
		t.Skip("the barrier listens at a socket")
	}
	b = &Barrier{engine: cfg.Addr, Opened: make(chan struct{})}
	// A short name: that of the test may make the folder's too long for a socket.
	cfg.Addr = filepath.Join(filepath.Dir(cfg.Addr), time.Now().Format("150405.000000"))
	if b.Listener, err = net.Listen("unix", cfg.Addr); err != nil {
		t.Fatal(err)
	}
	AtEnd(t, func() { _ = b.Close() })
	go b.accept()
	return cfg.FormatDSN(), b
}

func (b *Barrier) accept() {
	for {
		client, err := b.Accept()
		if err != nil {
			return
		}
		go func() {
			defer client.Close()
			<-b.Opened
			engine, err := net.Dial("unix", b.engine)
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
