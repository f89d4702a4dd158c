//go:build linux

// Package program builds velocityd, and runs it as processes, for tools. It must not know how checks are decided.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Build makes the program of the checkout that is the working folder.
func Build(ctx context.Context, out string, flags ...string) error {
	args := append(append([]string{"build"}, flags...), "-buildvcs=false", "-o", out, "./cmd/velocityd")
	if said, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("build velocityd: %w: %s", err, said)
	}
	return nil
}

// Environ is that of this process, without variables that steer velocityd or set clocks.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		isOwn := strings.HasPrefix(v, "VELOCITY_") && !strings.HasPrefix(v, "VELOCITY_CACHE=")
		return isOwn || strings.HasPrefix(v, "LD_PRELOAD=") || strings.HasPrefix(v, "FAKETIME")
	})
}

// Run runs a command on a database, for at most two minutes. The error has the begin of its complaints, and wraps its
// exit code.
func Run(ctx context.Context, binary, dsn string, args ...string) (stdout []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(Environ(), "VELOCITY_DSN="+dsn)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	if stdout, err = cmd.Output(); err != nil {
		return stdout, fmt.Errorf("velocityd %s: %w: %.300s", args[0], err, complaints.String())
	}
	return stdout, nil
}

// Process is a command that runs until it is stopped, or this process ends.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// Start starts a command on a database. Its log is appended to a file.
func Start(binary, dsn, log string, args ...string) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	p := &Process{exec.Command(binary, args...), make(chan struct{})}
	p.cmd.Env = append(Environ(), "VELOCITY_DSN="+dsn)
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel kills the process when this thread ends
		started <- p.cmd.Start()
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	return p, <-started
}

// Signal sends a signal to the process.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Kill ends the process as kill -9 does, and waits for its end.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	p.Await(10 * time.Second)
}

// Await waits for the end of the process, and says whether it came within a limit.
func (p *Process) Await(limit time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(limit):
		return false
	}
}

// ErrUnready says that an instance cannot decide.
var ErrUnready = errors.New("an instance is not ready in time")

// AwaitReady waits until the service at an address says that it is ready, or returns ErrUnready.
func AwaitReady(ctx context.Context, address string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for ctx.Err() == nil {
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		status, _, err := Ask(once, http.MethodGet, "http://"+address+"/readyz", http.NoBody)
		cancel()
		if err == nil && status == http.StatusOK {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return ErrUnready
}

// Ask asks over HTTP, once: the transport does not repeat it. A body is JSON.
func Ask(ctx context.Context, method, url string, body io.Reader) (status int, said []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.GetBody = nil
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	said, err = io.ReadAll(response.Body)
	return response.StatusCode, said, err
}

// CopyFolder copies modes, too: an engine refuses files that others could write to. Much of its files is empty.
func CopyFolder(ctx context.Context, from, to string) error {
	out, err := exec.CommandContext(ctx, "cp", "-a", "--sparse=always", from+"/.", to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, out)
	}
	return nil
}
