package localdb

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// serverAttributes put the server into a process group of its own, so that a terminal's Ctrl-C does not reach it, and have the
// kernel stop it in good order when this process dies without doing so.
func serverAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

func installerAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// serversOn lists the processes that were started with this data folder. It asks the kernel and no pid file: a pid file is
// written late and outlives its process, and its number may be another process's by now. A zombie does not count.
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
			continue // ended meanwhile, or not ours to see
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
