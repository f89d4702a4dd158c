package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// instance is a velocityd serve, as a process.
type instance struct {
	*world

	number int

	mu      sync.Mutex
	binary  string
	cmd     *exec.Cmd
	ended   chan struct{}
	address string // HTTP
	grpcAt  string
	grpc    *grpc.ClientConn
	outages []span // while it was killed, stopped or starting
}

// start starts the process, at the addresses of its first start.
func (i *instance) start(ctx context.Context) (err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.address == "" {
		if i.address, err = freeAddress(); err != nil {
			return err
		}
		if i.grpcAt, err = freeAddress(); err != nil {
			return err
		}
		i.grpc, err = grpc.NewClient(i.grpcAt, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
	}
	log, err := os.OpenFile(i.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), i.binary, "serve", "--listen", i.address, "--grpc-listen",
		i.grpcAt)
	cmd.Env = append(environ(), "VELOCITY_DSN=velocity@tcp("+i.relays[i.number].Address()+")/velocityd")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the kernel kills the process when this thread ends
		started <- cmd.Start()
		_ = cmd.Wait()
		close(ended)
	}()
	if err := <-started; err != nil {
		return err
	}
	i.cmd, i.ended = cmd, ended
	return nil
}

func (i *instance) logFile() string {
	return filepath.Join(i.dir, fmt.Sprintf("instance-%d.log", i.number))
}

// log is what the process has said.
func (i *instance) log() []byte {
	text, _ := os.ReadFile(i.logFile())
	return text
}

// signal sends a signal to the process.
func (i *instance) signal(s syscall.Signal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.cmd != nil {
		_ = i.cmd.Process.Signal(s)
	}
}

// kill ends the process as kill -9 does, and waits for its end.
func (i *instance) kill() {
	i.signal(syscall.SIGKILL)
	i.await(10 * time.Second)
}

// await waits for the end of the process.
func (i *instance) await(limit time.Duration) bool {
	i.mu.Lock()
	ended := i.ended
	i.mu.Unlock()
	if ended == nil {
		return true
	}
	select {
	case <-ended:
		return true
	case <-time.After(limit):
		return false
	}
}

// away notes that the process cannot answer while a function runs.
func (i *instance) away(do func()) {
	i.mu.Lock()
	n := len(i.outages)
	i.outages = append(i.outages, span{i.now(), forever})
	i.mu.Unlock()
	do()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.outages[n].end = i.now()
}

// wasOut says that the process could not answer at some time of a span.
func (i *instance) wasOut(s span) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.ContainsFunc(i.outages, s.meets)
}

var errUnready = errors.New("an instance is not ready in time")

// awaitReady waits until the instance says that it is ready.
func (i *instance) awaitReady(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for ctx.Err() == nil {
		if i.isReady(ctx) {
			return nil
		}
		pause(ctx, 20*time.Millisecond)
	}
	return errUnready
}

func (i *instance) isReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	status, _, err := i.ask(ctx, http.MethodGet, "/readyz", http.NoBody)
	return err == nil && status == http.StatusOK
}

// ask asks over HTTP, once: the transport does not repeat it.
func (i *instance) ask(ctx context.Context, method, path string, body io.Reader) (status int, said []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+i.address+path, body)
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
