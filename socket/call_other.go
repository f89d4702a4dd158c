//go:build !linux || race || msan || asan

package socket

import "syscall"

// Package syscall's own functions tell the race detector who has waited for whom, and the other
// sanitizers what was read.

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
