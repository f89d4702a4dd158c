package enginetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"

	"velocityd/tools/enginetest/relay"
)

// Proxy stands between clients and their engine, so that a test can act at a certain step of their
// conversation.
type Proxy struct {
	*relay.Relay

	// DSN reaches the database through the proxy.
	DSN string
}

// Through returns a proxy in front of the server of a DSN, until the test's end.
// It skips the test if the DSN names no socket.
func Through(tb testing.TB, dsn string) *Proxy {
	tb.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		tb.Fatal("parse dsn: unreadable")
	}
	if cfg.Net != "unix" {
		tb.Skip("the proxy speaks to a socket")
	}
	dir, err := os.MkdirTemp("", "p") //nolint:usetesting // its folder, named after the test, may be too long for a socket
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	engine := cfg.Addr
	cfg.Addr = filepath.Join(dir, "p.sock")
	r, err := relay.Listen("unix", cfg.Addr, engine)
	if err != nil {
		tb.Fatal(err)
	}
	AtEnd(tb, r.Close)
	return &Proxy{Relay: r, DSN: cfg.FormatDSN()}
}
