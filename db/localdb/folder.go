package localdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrInUse reports that another Start, of this process or of another one, holds the
// folder.
var ErrInUse = errors.New("data folder is in use")

// ErrWrongEngine reports a folder that another engine has written, or a newer version
// of the same engine.
var ErrWrongEngine = errors.New("data folder belongs to another engine")

// maxSocketPath is the longest path for a socket. The system's limit is 107 bytes on
// Linux and 103 on macOS.
const maxSocketPath = 100

const socketName = "mysql.sock"

// folder is a data folder that this process has locked. Its path is absolute and free
// of symbolic links, so that the same folder has the same name in every run.
type folder struct {
	path string
	lock *os.File
}

func (f *folder) data() string       { return filepath.Join(f.path, "data") }
func (f *folder) tmp() string        { return filepath.Join(f.path, "tmp") }
func (f *folder) engineFile() string { return filepath.Join(f.path, "engine") }
func (f *folder) logFile() string    { return filepath.Join(f.path, "server.log") }

// claim creates the folder if it is missing, and takes its lock. This process and its server hold it: the kernel frees
// it when both have ended in any way.
func claim(ctx context.Context, dir string) (*folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create data folder: %w", err)
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("resolve data folder: %w", err)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, fmt.Errorf("resolve data folder: %w", err)
	}
	f := &folder{path: path}
	if err := f.refuseForeign(); err != nil {
		return nil, err
	}
	if err := f.takeLock(ctx); err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o700); err != nil { //nolint:gosec // a folder needs its x bit
		f.release()
		return nil, fmt.Errorf("close data folder to others: %w", err)
	}
	return f, nil
}

// refuseForeign protects a folder of the user that was named by mistake: it must be
// empty, or have the lock file of claim.
func (f *folder) refuseForeign() error {
	if _, err := os.Stat(filepath.Join(f.path, "lock")); err == nil {
		return nil
	}
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return fmt.Errorf("read data folder: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("data folder %s holds other files (such as %s): name an empty or new one", f.path,
			entries[0].Name())
	}
	return nil
}

// lockPatience is how long a lock is waited for that a living process holds: a child that this process forks at the
// same time has an earlier file of the lock until it begins its own program.
const lockPatience = 500 * time.Millisecond

// takeLock takes the lock. If the process that had it was killed and has left its server, takeLock ends the server: by
// SIGTERM, and by SIGKILL when half of the time to ctx's deadline has passed. InnoDB recovers.
func (f *folder) takeLock(ctx context.Context) (err error) {
	if f.lock, err = os.OpenFile(filepath.Join(f.path, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("open lock of data folder: %w", err)
	}
	err = f.awaitLock(ctx, lockPatience)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		owner, server := f.holders()
		if !errors.Is(syscall.Kill(owner, 0), syscall.ESRCH) || ctx.Err() != nil {
			_ = f.lock.Close()
			return fmt.Errorf("%w: %s is held by process %d", ErrInUse, f.path, owner)
		}
		err = f.takeFrom(ctx, server)
	}
	if err == nil {
		err = f.noteHolders(os.Getpid())
	}
	if err != nil {
		_ = f.lock.Close()
		return fmt.Errorf("lock data folder %s: %w", f.path, err)
	}
	return nil
}

// takeFrom ends a server that was left behind, and takes the lock that it holds.
func (f *folder) takeFrom(ctx context.Context, server int) error {
	grace := defaultStopTimeout
	if deadline, ok := ctx.Deadline(); ok {
		grace = min(grace, time.Until(deadline)/2)
	}
	if !runsOn(ctx, server, f.data()) {
		server = 0
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if server != 0 {
			_ = syscall.Kill(server, sig) // fails if it has ended, or belongs to another user
		}
		if err := f.awaitLock(ctx, grace); !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
	}
	return fmt.Errorf("wait for the server of a killed process, %d: %w", server, context.DeadlineExceeded)
}

// awaitLock waits for the lock for so long at most, and returns EWOULDBLOCK if it stays held.
func (f *folder) awaitLock(ctx context.Context, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// holders returns the processes that the lock's file names: the one that took the lock, and its server.
func (f *folder) holders() (owner, server int) {
	text, _ := os.ReadFile(f.lock.Name())
	_, _ = fmt.Sscan(string(text), &owner, &server) // there may be no server yet
	return owner, server
}

// noteHolders writes processes into the lock's file.
func (f *folder) noteHolders(processes ...int) error {
	text := strings.Trim(fmt.Sprint(processes), "[]") + "\n"
	if err := f.lock.Truncate(0); err != nil {
		return err
	}
	_, err := f.lock.WriteAt([]byte(text), 0)
	return err
}

// renewTmp makes an empty folder for the server's temporary files. The server must not
// share it: a MariaDB that starts deletes every temporary table in it, and in a shared
// one such as /tmp those of other servers.
func (f *folder) renewTmp() error {
	if err := os.RemoveAll(f.tmp()); err != nil {
		return fmt.Errorf("clear temporary files: %w", err)
	}
	if err := os.Mkdir(f.tmp(), 0o700); err != nil {
		return fmt.Errorf("create folder for temporary files: %w", err)
	}
	return nil
}

// release frees the folder. The lock file stays: if it was removed, two processes could
// lock two files of the same name.
func (f *folder) release() {
	// Close alone might free the lock late: a child process that is just being started
	// has a copy of the file until it runs its program (flock(2)).
	_ = syscall.Flock(int(f.lock.Fd()), syscall.LOCK_UN)
	_ = f.lock.Close()
}

// checkEngine refuses a folder that the binary must not use. Every binary may use a
// folder without data.
func (f *folder) checkEngine(b Binary) (isNew bool, err error) {
	if _, err := os.Stat(f.data()); errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	text, err := os.ReadFile(f.engineFile())
	if err != nil {
		return false, fmt.Errorf("read which engine wrote data folder: %w", err)
	}
	engine, version, ok := strings.Cut(strings.TrimSpace(string(text)), " ")
	switch {
	case !ok:
		return false, fmt.Errorf("read which engine wrote data folder: %s says %q", f.engineFile(), text)
	case Engine(engine) != b.Engine:
		return false, fmt.Errorf("%w: %s was written by %s %s, not by %s: name another folder, or use that engine",
			ErrWrongEngine, f.path, engine, version, b.Engine)
	case older(b.Version, version):
		return false, fmt.Errorf("%w: %s was written by %s %s, which is newer than %s (%s)",
			ErrWrongEngine, f.path, engine, version, b.Version, b.Path)
	}
	return false, nil
}

// recordEngine writes into the folder which engine it belongs to.
func (f *folder) recordEngine(b Binary) error {
	tmp := f.engineFile() + ".new"
	if err := os.WriteFile(tmp, []byte(string(b.Engine)+" "+b.Version+"\n"), 0o600); err != nil {
		return fmt.Errorf("record engine of data folder: %w", err)
	}
	if err := os.Rename(tmp, f.engineFile()); err != nil {
		return fmt.Errorf("record engine of data folder: %w", err)
	}
	return nil
}

// older reports whether version a comes before version b, number by number.
func older(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, _ := strconv.Atoi(as[i])
		y, _ := strconv.Atoi(bs[i])
		if x != y {
			return x < y
		}
	}
	return len(as) < len(bs)
}

// socket returns the path of the server's socket. It is in the folder. If that path was
// too long for a socket address, it is in a new private folder under os.TempDir.
func (f *folder) socket() (string, error) {
	if path := filepath.Join(f.path, socketName); len(path) <= maxSocketPath {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "velocityd-")
	if err != nil {
		return "", fmt.Errorf("create folder for socket: %w", err)
	}
	path := filepath.Join(dir, socketName)
	if len(path) > maxSocketPath {
		return "", fmt.Errorf("place socket: both %s and %s are too long for a socket address", f.path, dir)
	}
	return path, nil
}
