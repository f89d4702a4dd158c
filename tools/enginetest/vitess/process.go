package vitess

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// Waits for processes.
const (
	startWait = 2 * time.Minute
	stopWait  = 20 * time.Second
	pollEvery = 50 * time.Millisecond
)

// Servers run as nobody if this process is root, because those of Vitess refuse root.
const nobody = 65534

// process is a server that this program started and will stop.
type process struct {
	name     string
	log      string // the file with its output
	cmd      *exec.Cmd
	stopping atomic.Bool
	done     chan struct{}
	err      error // why it has ended by itself; written before done is closed
}

// launch starts program with args. Its output goes to name.log in dir, which is its working
// folder. The process lives until stop or kill; on Linux the kernel ends it when this program
// dies. A Ctrl-C at the terminal does NOT reach it, so that this program can stop its servers
// in order.
func launch(dir, name, program string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = log.Close() }() // the process has its own handle
	file, err := os.Open(program)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = file.Close() }() // likewise
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "VTDATAROOT="+dir)
	cmd.Stdout, cmd.Stderr = log, log
	setAttributes(cmd, file)
	p := &process{name: name, log: log.Name(), cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// run starts the process and waits for its end, on a thread that it locks: the kernel sends
// the parent-death signal when that thread ends.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	err = p.cmd.Wait()
	if err == nil {
		err = errors.New("exit status 0")
	}
	if !p.stopping.Load() {
		p.err = fmt.Errorf("%s ended by itself: %w; its log ends:\n%s", p.name, err, lastWords(p.log))
	}
	close(p.done)
}

// stop asks the process to end, and kills it if it has not after stopWait.
func (p *process) stop() {
	p.stopping.Store(true)
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if the process has ended
	select {
	case <-p.done:
		return
	case <-time.After(stopWait):
	}
	p.kill()
}

// kill ends the process at once, and returns when it has ended.
func (p *process) kill() {
	p.stopping.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.done
}

// await waits until reached says nil. It gives up when the process or ctx ends, or after
// startWait, and then returns the last lines of the process's log.
func (p *process) await(ctx context.Context, reached func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := reached(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.err
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %w; its log ends:\n%s", p.name, ctx.Err(), err, lastWords(p.log))
		case <-tick.C:
		}
	}
}

// answers returns a condition for await: the process answers a GET of path with 200.
func answers(port int, path string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+loopback+":"+strconv.Itoa(port)+path,
			http.NoBody)
		if err != nil {
			return fmt.Errorf("ask %s: %w", path, err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return fmt.Errorf("ask %s: %w", path, err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("ask %s: %s", path, response.Status)
		}
		return nil
	}
}

// lastWords returns the end of a log.
func lastWords(file string) string {
	const most = 4000
	log, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = log.Close() }() // only read
	if info, err := log.Stat(); err == nil && info.Size() > most {
		_, _ = log.Seek(-most, io.SeekEnd) // without it the whole log is shown
	}
	text, err := io.ReadAll(log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text))
}
