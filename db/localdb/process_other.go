//go:build !linux

package localdb

import "syscall"

// serverAttributes put the server into a new process group, so that a terminal's Ctrl-C
// does not reach it. These systems have no parent-death signal: the server of a killed
// parent runs on until the next Start on its folder.
func serverAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

func installerAttributes() *syscall.SysProcAttr { return serverAttributes() }
