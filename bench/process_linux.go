package main

import "syscall"

// childAttributes keep a terminal's Ctrl-C from the process, and make the kernel end it
// when this program dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// groupAttributes put the process and its children into a new process group.
func groupAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
