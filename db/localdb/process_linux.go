package localdb

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// serverAttributes put the server into a new process group, so that a terminal's Ctrl-C
// does not reach it. They also make the kernel send it SIGTERM when this process dies,
// so that it shuts down in an orderly way.
func serverAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

func installerAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// serversOn returns the processes that were started with this data folder, without
// zombies. It asks the kernel. A pid file would not do: it is written late and outlives
// its process, and another process may have got its number.
func serversOn(data string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("look for servers left on %s: %w", data, err)
	}
	want := []byte("--datadir=" + data)
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err != nil {
			continue // the process has ended, or belongs to another user
		}
		for arg := range bytes.SplitSeq(line, []byte{0}) {
			if bytes.Equal(arg, want) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids, nil
}
