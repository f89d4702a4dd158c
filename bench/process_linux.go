package main

import (
	"os"
	"syscall"
)

// childAttributes keep a terminal's Ctrl-C from the process, and make the kernel end it
// when this program dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// peakOf returns how many bytes of memory a process that has ended held at most.
func peakOf(ended *os.ProcessState) int64 {
	usage, _ := ended.SysUsage().(*syscall.Rusage)
	if usage == nil {
		return 0
	}
	return usage.Maxrss << 10 // Linux counts KiB
}
