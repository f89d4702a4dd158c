package localdb_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/localdb"
	"velocityd/tools/enginetest"
	"velocityd/tools/nightly"
)

// helperDir, in the environment, turns the test binary into a process that starts a
// server and waits: see holdServer.
const (
	helperDir    = "LOCALDB_TEST_HELPER_DIR"
	helperBinary = "LOCALDB_TEST_HELPER_BINARY" // as JSON
)

// patience is how long tests wait for a server's start and stop
// included: as long as a slow machine needs.
const patience = 5 * time.Minute

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperDir); dir != "" {
		if err := holdServer(dir, os.Getenv(helperBinary)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	enginetest.Main(m)
}

// holdServer starts a server on dir, prints its process id and waits for the end of its
// standard input, or to be killed.
func holdServer(dir, binary string) error {
	var b localdb.Binary
	if err := json.Unmarshal([]byte(binary), &b); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := localdb.Start(ctx, localdb.Options{Dir: dir, Binary: b})
	if err != nil {
		return err
	}
	fmt.Println(s.PID())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return s.Stop(context.Background())
}

// onEachEngine runs a test on all engines at once. One that is missing skips its part,
// and fails it where CI=true says that it has to be there.
func onEachEngine(t *testing.T, test func(t *testing.T, b localdb.Binary)) {
	t.Helper()
	t.Parallel()
	on(t, localdb.Tested(), test)
}

// onOneEngine runs a test of the process and the folder of a server, on one engine. In `make
// test-all` it is onEachEngine.
func onOneEngine(t *testing.T, test func(t *testing.T, b localdb.Binary)) {
	t.Helper()
	t.Parallel()
	engines := localdb.Tested()
	if !nightly.Is() {
		engines = engines[len(engines)-1:] // it starts the quickest
	}
	on(t, engines, test)
}

func on(t *testing.T, engines []localdb.Engine, test func(t *testing.T, b localdb.Binary)) {
	t.Helper()
	for _, e := range engines {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			test(t, findEngine(t, e))
		})
	}
}

// folder returns a folder that the program has initialised: that of another series might not be one that it takes.
func folder(t *testing.T, b localdb.Binary) string {
	t.Helper()
	kind := b.Engine
	if kind == localdb.MariaDB {
		kind += localdb.Engine("-" + b.Version[:strings.LastIndexByte(b.Version, '.')])
	}
	return enginetest.Folder(t, kind)
}

func findEngine(t *testing.T, e localdb.Engine) localdb.Binary {
	t.Helper()
	b, err := localdb.Find(t.Context(), e)
	switch {
	case err == nil:
		return b
	case errors.Is(err, localdb.ErrNotFound) && os.Getenv("CI") != "true":
		t.Skip(err)
	}
	t.Fatal(err)
	return localdb.Binary{}
}

// start starts a server and stops it at the test's end.
func start(t *testing.T, o localdb.Options) *localdb.Server {
	t.Helper()
	s, err := localdb.Start(patiently(t), o)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() { stopNow(s) })
	return s
}

// patiently is a context for a start or a stop that has to succeed.
func patiently(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// stopNow ends a server without its shutdown work, which on MySQL takes a second and
// more.
func stopNow(s *localdb.Server) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Stop(ctx)
}

// connect opens a connection pool on the server's socket.
func connect(t *testing.T, s *localdb.Server) *sql.DB {
	t.Helper()
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User = "unix", s.Socket(), "root"
	cfg.Logger = &mysql.NopLogger{} // a pool that is closed after its server complains
	return open(t, cfg)
}

func open(t *testing.T, cfg *mysql.Config) *sql.DB {
	t.Helper()
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatalf("NewConnector: %v", err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func exec(t *testing.T, s *localdb.Server, statements ...string) {
	t.Helper()
	db := connect(t, s)
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// query is the text of a query's only value.
func query(t *testing.T, s *localdb.Server, statement string) string {
	t.Helper()
	var value string
	if err := connect(t, s).QueryRowContext(t.Context(), statement).Scan(&value); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return value
}

// newFolder names a folder that does not exist yet.
func newFolder(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "data-folder")
}

// script writes an executable that stands in for a server.
func script(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil { //nolint:gosec // a program needs its x bit
		t.Fatalf("WriteFile: %v", err)
	}
	return path
}

func wantErr(t *testing.T, err, kind error, parts ...string) {
	t.Helper()
	if err == nil || (kind != nil && !errors.Is(err, kind)) {
		t.Fatalf("error is %v, want %v", err, kind)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not name %q", err, part)
		}
	}
}

// atOnce runs the functions at once and waits for all of them.
func atOnce(fs ...func()) {
	var wg sync.WaitGroup
	for _, f := range fs {
		wg.Go(f)
	}
	wg.Wait()
}
