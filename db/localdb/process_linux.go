package localdb

import "syscall"

// serverAttributes put the server into a new process group, so that a terminal's Ctrl-C
// does not reach it. They also make the kernel send it SIGTERM when this process dies,
// so that it shuts down in an orderly way.
func serverAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

func installerAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
