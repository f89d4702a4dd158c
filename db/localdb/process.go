package localdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// pollInterval is the time between two looks at a state that can only be polled.
const pollInterval = 10 * time.Millisecond

// lockThread ties the goroutine to its OS thread for good; the thread ends with the
// goroutine. The kernel sends a parent-death signal when the thread that started the
// child ends. So the goroutine that starts a child has to stay until the child has
// ended.
func lockThread() { runtime.LockOSThread() }

// killGroup ends a process group at once.
func killGroup(pid int) error {
	err := syscall.Kill(-pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// stopStale ends a server that a killed earlier run has left on the folder. It sends
// SIGTERM, and SIGKILL when half of the time to ctx's deadline has passed; InnoDB
// recovers. The folder's lock must be held, so that the server belongs to no other run.
func (f *folder) stopStale(ctx context.Context) error {
	pids, err := serversOn(f.data())
	if err != nil || len(pids) == 0 {
		return err
	}
	grace := defaultStopTimeout
	if deadline, ok := ctx.Deadline(); ok {
		grace = min(grace, time.Until(deadline)/2)
	}
	gentle, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := f.endServers(gentle, pids, syscall.SIGTERM); err == nil || ctx.Err() != nil {
		return err
	}
	return f.endServers(ctx, pids, syscall.SIGKILL)
}

// endServers signals the processes and waits until no server runs on the folder.
func (f *folder) endServers(ctx context.Context, pids []int, sig syscall.Signal) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop server %d, left on %s by an earlier run: %w", pid, f.path, err)
		}
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		left, err := serversOn(f.data())
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for server %d, left on %s by an earlier run: %w", left[0], f.path, ctx.Err())
		case <-tick.C:
		}
	}
}
