//go:build !linux

package localdb

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// serverAttributes put the server into a new process group, so that a terminal's Ctrl-C
// does not reach it. These systems have no parent-death signal: the server of a killed
// parent runs on until the next Start on its folder.
func serverAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

func installerAttributes() *syscall.SysProcAttr { return serverAttributes() }

// serversOn returns the processes that were started with this data folder.
func serversOn(data string) ([]int, error) {
	out, err := exec.Command("ps", "-axwwo", "pid=,command=").Output()
	if err != nil {
		return nil, fmt.Errorf("look for servers left on %s: %w", data, err)
	}
	var pids []int
	for line := range strings.Lines(string(out)) {
		pid, command, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.Contains(command+" ", " --datadir="+data+" ") {
			continue
		}
		if n, err := strconv.Atoi(pid); err == nil {
			pids = append(pids, n)
		}
	}
	return pids, nil
}
