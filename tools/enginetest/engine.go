// Package enginetest gives tests real engines: a server of each kind for the test
// binary, a fresh migrated database for each test, and the helpers of a DBA on
// it. It is for tests only and must not know how checks are decided.
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/localdb"
	"velocityd/tools/nightly"
)

// Engine is one kind of server that tests run on.
type Engine struct {
	Name  string // a localdb.Engine, or userServer
	lent  bool   // the server outlives this test binary
	admin func() (*mysql.Config, error)
	pool  databasePool
	// rows has databases for tests that change rows alone.
	rows databasePool
	// portable has databases with the tables for engines without procedures.
	portable databasePool
}

// userServer is the name of the server that VELOCITY_TEST_DSN names.
const userServer = "dsn"

// gcPercent lets garbage of tests grow before it is collected. With the race detector, Go's default
// of 100 made the tests of the commands take 1.4 times the processor time.
const gcPercent = 400

// heapLimit is from where on garbage is collected more often, in bytes. The race detector adds about twice the heap,
// and gives nothing back.
const heapLimit = 256 << 20

// Main runs the tests of a package, and then the functions after, which remove things that tests share, and stops the
// servers that they used. A package that uses Each or One calls it from TestMain.
func Main(m *testing.M, after ...func()) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
		debug.SetMemoryLimit(heapLimit)
	}
	code := m.Run()
	for _, clean := range after {
		clean()
	}
	var err error
	for _, engine := range all() {
		err = errors.Join(err, engine.drop())
	}
	if err = errors.Join(err, own.stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// engines returns the kinds to test on: the user's server if VELOCITY_TEST_DSN
// names one, else private servers of every kind that the project is tested on.
func engines() []*Engine {
	if dsn := os.Getenv("VELOCITY_TEST_DSN"); dsn != "" {
		return []*Engine{{Name: userServer, lent: true, admin: func() (*mysql.Config, error) { return mysql.ParseDSN(dsn) }}}
	}
	var list []*Engine
	lent := lentServers()
	for _, kind := range localdb.Tested() {
		admin := func() (*mysql.Config, error) { return own.start(kind, "") }
		server, isLent := lent[kind]
		if isLent {
			admin = func() (*mysql.Config, error) { return rootOn(server.socket), nil }
		}
		list = append(list, &Engine{Name: string(kind), lent: isLent, admin: sync.OnceValues(admin)})
	}
	return list
}

// all is made once, so that each kind is started once.
var all = sync.OnceValue(engines) //nolint:gochecknoglobals // see own

// Each runs test on every engine as a parallel subtest: it is for tests of SQL text, in a file or in Go. An engine that
// is not on this machine skips its subtest with a message, and fails it if CI=true.
func Each(t *testing.T, test func(t *testing.T, engine *Engine)) {
	t.Helper()
	on(t, all(), test)
}

// One is Each on one engine, the first on this machine, for tests of Go without SQL statements. In `make test-all`
// it is Each.
func One(t *testing.T, test func(t *testing.T, engine *Engine)) {
	t.Helper()
	if nightly.Is() {
		on(t, all(), test)
		return
	}
	on(t, []*Engine{First(t)}, test)
}

// First returns the first engine on this machine. Without any the test is skipped, and fails if CI=true.
func First(tb testing.TB) *Engine {
	tb.Helper()
	var absent error
	for _, engine := range all() {
		if _, absent = engine.admin(); absent == nil {
			return engine
		}
	}
	missing(tb, absent)
	return nil
}

func on(t *testing.T, engines []*Engine, test func(t *testing.T, engine *Engine)) {
	t.Helper()
	for _, engine := range engines {
		t.Run(engine.Name, func(t *testing.T) {
			t.Parallel()
			if _, err := engine.admin(); err != nil {
				missing(t, err)
			}
			test(t, engine)
		})
	}
}

// Engines returns the engines on this machine, for tests that ask all of them the same. A missing engine
// fails the test if CI=true; without any engine the test is skipped.
func Engines(tb testing.TB) []*Engine {
	tb.Helper()
	var present []*Engine
	var err error
	for _, engine := range all() {
		_, absent := engine.admin()
		switch {
		case absent == nil:
			present = append(present, engine)
		case os.Getenv("CI") == "true":
			missing(tb, absent)
		default:
			err = absent
		}
	}
	if len(present) == 0 {
		missing(tb, err)
	}
	return present
}

func missing(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, localdb.ErrNotFound) && os.Getenv("CI") != "true" {
		tb.Skip(err)
	}
	tb.Fatal(err)
}

// Private starts a server that belongs to the test alone, which may stop, kill
// and start it again; it is killed at the test's end. With VELOCITY_TEST_DSN
// set there is no binary to start, and the test is skipped.
func (e *Engine) Private(tb testing.TB, dir string, args ...string) *localdb.Server {
	tb.Helper()
	return Private(tb, localdb.Engine(e.Kind(tb)), dir, args...)
}

// Private starts a server of a kind for one test or benchmark, with the durable
// settings of localdb unless args change them.
func Private(tb testing.TB, kind localdb.Engine, dir string, args ...string) *localdb.Server {
	tb.Helper()
	initialise(tb, kind, dir)
	server, err := launch(kind, dir, args...)
	if err != nil {
		missing(tb, err)
	}
	AtEnd(tb, func() { stopNow(server) })
	return server
}

// AdminDSN is a private server's, for one of its databases or "".
func AdminDSN(server *localdb.Server, database string) string {
	cfg := adminConfig(server)
	cfg.DBName = database
	return cfg.FormatDSN()
}

func adminConfig(server *localdb.Server) *mysql.Config { return rootOn(server.Socket()) }

func rootOn(socket string) *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr = "root", "unix", socket
	return cfg
}

func launch(kind localdb.Engine, dir string, args ...string) (*localdb.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	binary, err := localdb.Find(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("find an engine to test on: %w", err)
	}
	return localdb.Start(ctx, localdb.Options{Dir: dir, Binary: binary, Args: args})
}

// stopNow ends a server without its shutdown work, which on a slow machine may
// take longer than Stop waits. The server has ended when stopNow returns.
func stopNow(server *localdb.Server) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = server.Stop(ctx)
}
