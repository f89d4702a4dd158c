package vitess

import (
	"os"
	"os/exec"
	"syscall"
)

// setAttributes keep a terminal's Ctrl-C from a server, make the kernel end it when this
// process dies, and take root's rights from it. Its program may lie where only root may look,
// such as root's own cache. So root runs it by the descriptor of the open file.
func setAttributes(cmd *exec.Cmd, program *os.File) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if os.Getuid() == 0 {
		cmd.Path = "/proc/self/fd/3"
		cmd.ExtraFiles = []*os.File{program}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
}
