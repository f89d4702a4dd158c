package localdb

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
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

func killGroup(pid int) error {
	err := syscall.Kill(-pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// runsOn reports whether a process is a server that was started with this data folder: another process may have got the
// number of one that has ended.
func runsOn(ctx context.Context, pid int, data string) bool {
	if pid == 0 {
		return false
	}
	out, err := exec.CommandContext(ctx, "ps", "-wwo", "command=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(out), " --datadir="+data+" ")
}
