package main

import "syscall"

// childAttributes keep a terminal's Ctrl-C from the process, and have the kernel
// end it when this program dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// groupAttributes make a group of the process and what it starts.
func groupAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
