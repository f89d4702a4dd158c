//go:build linux && !race && !msan && !asan

package socket

import (
	"syscall"
	"unsafe"
)

// receive reads from a socket that does not block.
func receive(fd uintptr, p []byte) (int, error) { return call(syscall.SYS_READ, fd, p) }

// send writes to a socket that does not block.
func send(fd uintptr, p []byte) (int, error) { return call(syscall.SYS_WRITE, fd, p) }

// call makes a system call of which the scheduler is not told.
func call(number, fd uintptr, p []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))) //nolint:gosec // the kernel wants the address
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
