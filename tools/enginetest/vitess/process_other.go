//go:build !linux

package vitess

import (
	"os"
	"os/exec"
	"syscall"
)

// setAttributes keep a terminal's Ctrl-C from a server, and take root's rights from it.
func setAttributes(cmd *exec.Cmd, _ *os.File) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
}
