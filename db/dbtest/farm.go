package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/localdb"
)

// lentEngines is the environment variable in which Lend names its servers: "mysql=SOCKET mariadb-11.8=SOCKET".
const lentEngines = "VELOCITY_TEST_ENGINES"

// farm is servers that several tests share.
type farm struct {
	mu      sync.Mutex
	folder  string
	servers []*localdb.Server
}

// own is the servers that this test binary has started, each at its first use, because none was lent. It outlives every
// test and is emptied by Main: a server for each test would cost seconds.
var own farm //nolint:gochecknoglobals // see above

// Lend starts a server of each kind that is on this machine, lends them to the tests of the packages that a command runs
// (go test ./db ./docs), and stops them when it has ended. The error is the command's.
func Lend(ctx context.Context, command []string) (err error) {
	var lender farm
	defer func() { err = errors.Join(err, lender.stop()) }()
	kinds := localdb.Tested()
	lent, faults := make([]string, len(kinds)), make([]error, len(kinds))
	var starts sync.WaitGroup
	for i, kind := range kinds {
		starts.Go(func() {
			cfg, err := lender.start(kind)
			if err == nil {
				lent[i] = string(kind) + "=" + cfg.Addr
			} else if !errors.Is(err, localdb.ErrNotFound) { // the tests say that it is missing
				faults[i] = err
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

// lentSockets returns the sockets of the servers that are lent to this test binary.
func lentSockets() map[localdb.Engine]string {
	sockets := map[localdb.Engine]string{}
	for _, lent := range strings.Fields(os.Getenv(lentEngines)) {
		kind, socket, _ := strings.Cut(lent, "=")
		sockets[localdb.Engine(kind)] = socket
	}
	return sockets
}

func (f *farm) start(kind localdb.Engine) (*mysql.Config, error) {
	folder, err := f.place()
	if err != nil {
		return nil, err
	}
	server, err := launch(kind, filepath.Join(folder, string(kind)),
		// These servers die with the tests: nothing has to survive them.
		"--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync", "--skip-innodb-doublewrite",
		// Tests of three packages at once.
		"--max-connections=4000", "--innodb-buffer-pool-size=256M")
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers = append(f.servers, server)
	return adminConfig(server), nil
}

// place returns the folder of the servers, which its first call makes.
func (f *farm) place() (folder string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.folder == "" {
		if f.folder, err = os.MkdirTemp("", "velocityd-test-"); err != nil {
			return "", fmt.Errorf("make a folder for test servers: %w", err)
		}
	}
	return f.folder, nil
}

func (f *farm) stop() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, server := range f.servers {
		stopNow(server)
	}
	if f.folder == "" {
		return nil
	}
	return os.RemoveAll(f.folder)
}
