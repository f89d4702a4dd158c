//go:build !linux || race

package socket

import "syscall"

// The race detector learns from package syscall's own functions who has waited for whom.

// receive reads from a socket that does not block.
func receive(fd uintptr, p []byte) (int, error) {
	n, err := syscall.Read(int(fd), p)
	return max(n, 0), err
}

// send writes to a socket that does not block.
func send(fd uintptr, p []byte) (int, error) {
	n, err := syscall.Write(int(fd), p)
	return max(n, 0), err
}
