// Package localdb runs a private mysqld or mariadbd as a child process: it finds the
// program, initialises a data folder, starts the server on a unix socket and stops it.
// It must not know SQL, schemas or drivers, and installs no software.
package localdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// How long Start and Stop may take if their context has no deadline.
const (
	defaultStartTimeout = 60 * time.Second
	defaultStopTimeout  = 30 * time.Second
)

// Options configure a server. Dir and Binary are required.
type Options struct {
	// Dir is the folder for all files of this server: data, log, lock and, if its path
	// is short enough, the socket. It is created if missing, and closed to other users
	// (0700). A folder that holds other files is refused.
	Dir string
	// Binary is the program, as Find returns it.
	Binary Binary
	// Port is a TCP port on 127.0.0.1; 0 means no network. root cannot log in by TCP,
	// so make another account through the socket.
	Port int
	// Args are further settings of the server, such as "--max-connections=900". They
	// override those of this package.
	Args []string
}

// Server is a running server process. Its methods may be called from several goroutines.
type Server struct {
	folder   *folder
	binary   Binary
	socket   string
	cmd      *exec.Cmd
	stopping atomic.Bool
	done     chan struct{}
	err      error // written before done is closed
}

// Start starts a server on o.Dir and returns once it answers on its socket. It
// initialises a new folder first. In a folder of a killed earlier run it stops the
// server that is left and removes temporary files; committed data is kept. The settings
// are durable (binary log on, sync_binlog=1, innodb_flush_log_at_trx_commit=1).
// root@localhost has no password, and can log in only through the socket, which only
// this user can open.
//
// ctx bounds the start (60 seconds if it has no deadline) and NOT the server's life,
// which lasts until Stop. On Linux the kernel also stops the server when this process
// dies.
//
// The error wraps ErrInUse if another Start holds the folder, and ErrWrongEngine if
// another engine or a newer version has written it. If the server or its initialisation
// fails, the error ends with the last lines of the log (Dir/server.log). Start does NOT
// convert the system tables of an older MariaDB (mariadb-upgrade); MySQL converts its
// own.
func Start(ctx context.Context, o Options) (*Server, error) {
	ctx, cancel := withDefault(ctx, defaultStartTimeout)
	defer cancel()
	f, err := claim(ctx, o.Dir)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Binary.Engine, err)
	}
	s, err := startOn(ctx, f, o)
	if err != nil {
		f.release()
		return nil, fmt.Errorf("start %s: %w", o.Binary.Engine, err)
	}
	return s, nil
}

func startOn(ctx context.Context, f *folder, o Options) (*Server, error) {
	isNew, err := f.checkEngine(o.Binary)
	if err != nil {
		return nil, err
	}
	log, err := f.openLog()
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.file.Close() }() // the server has its own handle
	if isNew {
		err = f.initialise(ctx, o.Binary, log.file)
	} else {
		err = f.recordEngine(o.Binary) // before a newer version converts the data
	}
	if err != nil {
		return nil, log.explain(err)
	}
	s, err := f.launch(o, log.file)
	if err != nil {
		return nil, err
	}
	if err := s.waitReady(ctx); err != nil {
		s.abort()
		return nil, log.explain(err)
	}
	return s, nil
}

// launch starts the process and the goroutine that waits for its end.
func (f *folder) launch(o Options, log *os.File) (*Server, error) {
	socket, err := f.socket()
	if err != nil {
		return nil, err
	}
	if err := f.renewTmp(); err != nil {
		return nil, err
	}
	removeSocket(socket)
	cmd := exec.Command(o.Binary.Path, serverArgs(f, socket, o)...) //nolint:noctx // lives until Stop, not as long as a context
	cmd.Dir = f.path
	cmd.Env = serverEnviron()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = serverAttributes()
	cmd.ExtraFiles = []*os.File{f.lock} // so that the folder is held as long as the server runs
	s := &Server{folder: f, binary: o.Binary, socket: socket, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go s.run(started)
	if err := <-started; err != nil {
		if cmd.Process != nil {
			s.abort()
		}
		return nil, fmt.Errorf("start %s: %w", o.Binary.Path, err)
	}
	return s, nil
}

// run starts the process and notes it in the folder, waits for its end, and frees the folder.
func (s *Server) run(started chan<- error) {
	lockThread()
	err := s.cmd.Start()
	if err != nil {
		started <- err
		return
	}
	started <- s.folder.noteHolders(os.Getpid(), s.PID())
	err = s.cmd.Wait()
	if err == nil {
		err = errors.New("exit status 0")
	}
	if !s.stopping.Load() {
		s.err = fmt.Errorf("%s ended by itself: %w (see %s)", filepath.Base(s.binary.Path), err, s.folder.logFile())
	}
	removeSocket(s.socket)
	if dir := filepath.Dir(s.socket); dir != s.folder.path {
		_ = os.Remove(dir)
	}
	s.folder.release()
	close(s.done)
}

// removeSocket removes a socket and MySQL's lock file beside it, which may name a
// process that has ended.
func removeSocket(path string) {
	_ = os.Remove(path)
	_ = os.Remove(path + ".lock")
}

// Socket returns the path of the unix socket on which the server listens.
func (s *Server) Socket() string { return s.socket }

// PID returns the server's process id. Once Done is closed, another process may have
// the same id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Done returns a channel that is closed when the server process has ended for any
// reason. Then its folder is free.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns why the server has ended by itself. It returns nil while the server runs,
// and after Stop.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Stop asks the server to shut down and waits until it has ended. When ctx ends (after
// 30 seconds if it has no deadline), Stop kills the server, which loses nothing that was
// committed, and returns the context's error. Stop may be called at any time, several
// times and concurrently. It returns nil if the server has already ended.
func (s *Server) Stop(ctx context.Context) error {
	ctx, cancel := withDefault(ctx, defaultStopTimeout)
	defer cancel()
	select {
	case <-s.done:
		return nil
	default:
	}
	if !s.stopping.Swap(true) {
		_ = s.cmd.Process.Signal(syscall.SIGTERM) // fails only if the process has ended
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
	}
	_ = s.cmd.Process.Kill()
	<-s.done // does not take long: the process is killed
	return fmt.Errorf("stop %s: killed, because it had not stopped in time: %w", s.binary.Engine, ctx.Err())
}

// abort ends a server that did not become ready. While it starts it may ignore SIGTERM,
// so it gets little time before SIGKILL.
func (s *Server) abort() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_ = s.Stop(ctx)
}

// withDefault returns ctx, with the timeout d if it has no deadline.
func withDefault(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}
