package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

	mu       sync.Mutex
	binary   string
	cmd      *exec.Cmd
	ended    chan struct{}
	address  string // HTTP
	grpcAt   string
	grpc     *grpc.ClientConn
	outages  []span // while it was killed, stopped or starting
	outSince time.Duration
}

// start starts the process, at the addresses of its first start.
func (i *instance) start(ctx context.Context) (err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.address == "" {
		r := rand.New(rand.NewPCG(i.seed, uint64(time.Now().UnixNano()))) // ports are no part of the round
		if i.address, err = freePort(r); err != nil {
			return err
		}
		if i.grpcAt, err = freePort(r); err != nil {
			return err
		}
		i.grpc, err = grpc.NewClient(i.grpcAt, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second}))
		if err != nil {
			return err
		}
	}
	log, err := os.OpenFile(filepath.Join(i.dir, fmt.Sprintf("instance-%d.log", i.number)),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), i.binary, "serve", "--listen", i.address, "--grpc-listen", i.grpcAt)
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

// out notes that the process cannot answer from now on, and back that it can.
func (i *instance) out() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.outSince = i.now()
}

func (i *instance) back() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.outages = append(i.outages, span{i.outSince, i.now()})
	i.outSince = 0
}

// wasOut says that the process could not answer at some time of a span.
func (i *instance) wasOut(s span) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.outSince > 0 && i.outSince < s.end {
		return true
	}
	for _, o := range i.outages {
		if o.meets(s) {
			return true
		}
	}
	return false
}

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
	return errors.New("an instance is not ready in time")
}

func (i *instance) isReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+i.address+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode == http.StatusOK
}
