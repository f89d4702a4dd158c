package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/localdb"
)

// lentEngines is the environment variable in which Lend names the sockets of its servers, and a folder of each engine
// as serverGroup.fresh makes it: "mysql=SOCKET,FOLDER mariadb-11.8=SOCKET,FOLDER".
const lentEngines = "VELOCITY_TEST_ENGINES"

// serverGroup is servers that several tests share.
type serverGroup struct {
	mu      sync.Mutex
	folder  string
	servers []*localdb.Server
	made    sync.Map // func() (string, error) by localdb.Engine: see fresh
}

// own is the servers that this test binary has started, each at its first use, because none was lent. It outlives every
// test and is emptied by Main: a server for each test would cost seconds.
var own serverGroup //nolint:gochecknoglobals // see above

// Lend starts a server of each kind that is on this machine, lends them to the tests of the packages that a command
// runs (go test ./db ./docs), and stops them when it has ended. The error is the command's.
func Lend(ctx context.Context, command []string) (err error) {
	var lender serverGroup
	defer func() { err = errors.Join(err, lender.stop()) }()
	kinds := localdb.Tested()
	lent, faults := make([]string, len(kinds)), make([]error, len(kinds))
	var starts sync.WaitGroup
	for i, kind := range kinds {
		starts.Go(func() {
			if lent[i], faults[i] = lender.lend(kind); errors.Is(faults[i], localdb.ErrNotFound) {
				faults[i] = nil // the tests say that it is missing
			}
		})
	}
	starts.Wait()
	if err := errors.Join(faults...); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), lentEngines+"="+strings.Join(lent, " "))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	return cmd.Run()
}

// lentServer is a server that Lend has started, and a folder of its engine.
type lentServer struct{ socket, folder string }

func (g *serverGroup) lend(kind localdb.Engine) (word string, err error) {
	folder, err := g.fresh(kind)
	if err != nil {
		return "", err
	}
	cfg, err := g.start(kind, folder)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s=%s,%s", kind, cfg.Addr, folder), nil
}

func lentServers() map[localdb.Engine]lentServer {
	lent := map[localdb.Engine]lentServer{}
	for _, word := range strings.Fields(os.Getenv(lentEngines)) {
		kind, rest, _ := strings.Cut(word, "=")
		socket, folder, _ := strings.Cut(rest, ",")
		lent[localdb.Engine(kind)] = lentServer{socket, folder}
	}
	return lent
}

// start starts a server, on a copy of a folder or, with "", on one that it initialises.
func (g *serverGroup) start(kind localdb.Engine, folder string) (*mysql.Config, error) {
	place, err := g.place()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(place, string(kind))
	if folder != "" {
		if err := copyFolder(folder, dir); err != nil {
			return nil, err
		}
	}
	server, err := launch(kind, dir,
		// These servers die with the tests: nothing has to survive them.
		"--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync", "--skip-innodb-doublewrite",
		// Owners without SUPER migrate: see docs/install.md.
		"--log-bin-trust-function-creators=ON",
		// Tests of three packages at once.
		"--max-connections=4000", "--innodb-buffer-pool-size=256M")
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.servers = append(g.servers, server)
	return adminConfig(server), nil
}

// fresh returns a folder that an engine has initialised and left in good order. A copy of it is a new server's in a
// fraction of the time.
func (g *serverGroup) fresh(kind localdb.Engine) (string, error) {
	made, _ := g.made.LoadOrStore(kind, sync.OnceValues(func() (string, error) {
		place, err := g.place()
		if err != nil {
			return "", err
		}
		folder := filepath.Join(place, "fresh-"+string(kind))
		server, err := launch(kind, folder)
		if err != nil {
			return "", err
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return folder, server.Stop(ctx)
	}))
	return made.(func() (string, error))() //nolint:errcheck // of the assertion: it was stored above
}

// Kind returns the name of the engine's program. With VELOCITY_TEST_DSN set there is none, and the test is skipped.
func (e *Engine) Kind(tb testing.TB) string {
	tb.Helper()
	if e.Name == userServer {
		tb.Skip("needs a private server; VELOCITY_TEST_DSN names a shared one")
	}
	return e.Name
}

// Folder returns a folder in which a server of this kind can start at once.
func (e *Engine) Folder(tb testing.TB) string {
	tb.Helper()
	return Folder(tb, localdb.Engine(e.Kind(tb)))
}

// Folder returns a folder that an engine has initialised and left in good order.
func Folder(tb testing.TB, kind localdb.Engine) string {
	tb.Helper()
	dir := tb.TempDir()
	initialise(tb, kind, dir)
	return dir
}

// initialise fills an empty folder for a server of an engine. It does nothing to a folder that has been used.
func initialise(tb testing.TB, kind localdb.Engine, dir string) {
	tb.Helper()
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return
	}
	folder := lentServers()[kind].folder
	if folder == "" {
		var err error
		if folder, err = own.fresh(kind); err != nil {
			missing(tb, err)
		}
	}
	if err := copyFolder(folder, dir); err != nil {
		tb.Fatal(err)
	}
}

// copyFolder copies modes, too: a server refuses files that others could write to. Much of these files is empty.
func copyFolder(from, to string) error {
	if out, err := exec.Command("cp", "-a", "--sparse=always", from+"/.", to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, out)
	}
	return nil
}

// place returns the folder of the servers, which its first call makes.
func (g *serverGroup) place() (folder string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.folder == "" {
		if g.folder, err = os.MkdirTemp("", "velocityd-test-"); err != nil {
			return "", fmt.Errorf("make a folder for test servers: %w", err)
		}
	}
	return g.folder, nil
}

func (g *serverGroup) stop() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, server := range g.servers {
		stopNow(server)
	}
	if g.folder == "" {
		return nil
	}
	return os.RemoveAll(g.folder)
}
