package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Waits for processes.
const (
	startWait = 30 * time.Second
	stopWait  = 5 * time.Second
	pollEvery = 20 * time.Millisecond
)

// clockTick is the unit of /proc/PID/stat on every Linux that Go runs on.
const clockTick = time.Second / 100

// child is a process that this program started and will stop, by its id.
type child struct {
	name string
	log  string // the file with its output
	cmd  *exec.Cmd
	done chan struct{}
}

// startChild starts path with args. Its output goes to name.log in dir. The process lives
// until stop, until ctx ends, or until this program dies. A Ctrl-C at the terminal does
// NOT reach it, so that this program can stop its children in order.
func startChild(ctx context.Context, dir, name string, env []string, path string, args ...string) (*child, error) {
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = log.Close() }() // the process has its own handle
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopWait
	c := &child{name: name, log: log.Name(), cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go c.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c, nil
}

// run starts the process and waits for its end, on a thread that it locks: the kernel
// sends the parent-death signal when that thread ends.
func (c *child) run(started chan<- error) {
	runtime.LockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = c.cmd.Wait() // done tells of the end
	close(c.done)
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop asks the process to end, and kills it if it has not after stopWait.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // fails only if the process has ended
	select {
	case <-c.done:
		return
	case <-time.After(stopWait):
	}
	_ = c.cmd.Process.Kill()
	<-c.done
}

// awaitPort waits until the child accepts connections at address.
func (c *child) awaitPort(ctx context.Context, network, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-c.done:
			return fmt.Errorf("%s ended: %s", c.name, c.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %s", c.name, err, c.lastWords())
		case <-tick.C:
		}
	}
}

// lastWords returns the end of the process's output.
func (c *child) lastWords() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return tail(text)
}

func tail(text []byte) string {
	const most = 600
	text = bytes.TrimSpace(text)
	return string(text[max(0, len(text)-most):])
}

// output runs a program to its end, at most for limit, and returns its standard output.
// The error holds the end of its standard error.
func output(ctx context.Context, limit time.Duration, cmd *exec.Cmd) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	cmd.SysProcAttr = groupAttributes()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the program and its children
		err = errors.Join(ctx.Err(), <-ended)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, tail(problems.Bytes()))
	}
	return out.Bytes(), nil
}

// groupAttributes put the process and its children into a new process group.
func groupAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// cpuOf returns the processor time of a process with all its threads, or 0 if there is none (0).
func cpuOf(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	return parseStat(string(text))
}

// parseStat reads utime and stime, the 14th and 15th field. The second field, which is
// the program's name, may hold spaces and brackets.
func parseStat(text string) (time.Duration, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, errors.New("read processor time: too few fields")
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	return time.Duration(user+system) * clockTick, nil
}

// mostResidentOf returns the most memory that a process has held resident, in bytes.
func mostResidentOf(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, errors.New("read memory: no VmHWM")
}

// Ports to choose from. They are below those that Linux gives to outgoing connections,
// which could otherwise take the port before the process does.
const (
	firstPort = 15_000
	ports     = 15_000
	portTries = 100
)

// freeAddress returns an address of the loopback interface that is not in use.
func freeAddress(ctx context.Context) (string, error) {
	var err error
	for range portTries {
		var l net.Listener
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(ports)))
		if l, err = new(net.ListenConfig).Listen(ctx, "tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}
