// Package socket makes connections whose reads and writes the Go scheduler does not look after.
//
// Go takes every system call for one that may last. It marks the goroutine, so that another thread
// can take over its processor, and wakes a watching thread of the runtime (sysmon) if that sleeps,
// which then looks for such goroutines, at first every 20 µs. A read or write of a socket that does
// not block needs none of that. A service that does little else pays for it: the watching thread
// alone took 5 % of the processor time of velocityd, and wakes on the cores on which its callers
// and its database run. What it gains is in docs/decisions/0047.
//
// A program that uses this package must call KeepWatch.
//
// This package knows neither HTTP nor SQL. It must not be used for files, which block.
package socket

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Conn is a net.Conn over a TCP or Unix socket. It does what the connection that it is made of
// does, in all but how it asks the kernel.
//
// It does NOT give out its file descriptor, because a caller of that would need to know whether
// its own calls block.
type Conn struct {
	net.Conn
	raw         syscall.RawConn
	read, write direction
}

// direction is one direction of a connection: the reads or the writes.
type direction struct {
	mu sync.Mutex // held for a whole Read or Write
	// attempt does as much as can be done without waiting, and says whether that is all. It is
	// made once, so that a call needs no memory.
	attempt func(fd uintptr) bool
	rest    []byte // what is still to be filled or sent
	done    int    // bytes
	err     error
}

// New returns a Conn that takes the place of inner, or inner itself if it is no socket.
func New(inner net.Conn) net.Conn {
	descriptor, ok := inner.(syscall.Conn)
	if !ok {
		return inner
	}
	raw, err := descriptor.SyscallConn()
	if err != nil {
		return inner
	}
	c := &Conn{Conn: inner, raw: raw}
	c.read.attempt, c.write.attempt = c.read.receive, c.write.send
	return c
}

// watchEvery is how long the watching thread may sleep.
const watchEvery = 100 * time.Millisecond

// KeepWatch wakes the runtime's watching thread from time to time, until ctx ends. That thread
// interrupts goroutines that compute for longer than 10 ms, and looks at sockets while all
// processors are busy. Nothing else wakes it for certain while Conns are read and written: it
// sleeps until the next timer.
func KeepWatch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return c.Conn.Read(p)
	}
	n, err := c.read.run(c.raw.Read, p)
	if err != nil {
		return n, c.failed("read", err)
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.write.run(c.raw.Write, p)
	if err != nil {
		return n, c.failed("write", err)
	}
	return n, nil
}

// CloseWrite closes the sending half of the connection, if it has halves.
func (c *Conn) CloseWrite() error { return CloseWrite(c.Conn) }

// CloseWrite closes the sending half of a connection of any type, if it has halves.
func CloseWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// IsQuiet says that the other side has neither closed the connection nor sent anything. It does
// not wait, but for a Read that is under way. If something was sent, a part of it is lost, so the
// connection must be closed then.
func (c *Conn) IsQuiet() bool {
	var one [1]byte
	var problem error
	err := c.raw.Read(func(fd uintptr) bool {
		_, problem = again(receive, fd, one[:])
		return true
	})
	return err == nil && errors.Is(problem, syscall.EAGAIN)
}

// run reads into p, or writes it, by wait, which makes attempts until one of them is the last.
func (d *direction) run(wait func(func(uintptr) bool) error, p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rest, d.done, d.err = p, 0, nil
	err := wait(d.attempt)
	d.rest = nil
	if err == nil {
		err = d.err
	}
	return d.done, err
}

// receive takes what has come.
func (d *direction) receive(fd uintptr) bool {
	n, err := again(receive, fd, d.rest)
	return d.took(n, err)
}

// send sends as much as the kernel takes.
func (d *direction) send(fd uintptr) bool {
	for len(d.rest) > 0 && d.err == nil {
		n, err := again(send, fd, d.rest)
		if n == 0 && err == nil {
			err = io.ErrUnexpectedEOF // as package net has it
		}
		if !d.took(n, err) {
			return false
		}
	}
	return true
}

// took notes what a system call has done. It returns false if the call must be waited for.
func (d *direction) took(n int, err error) bool {
	switch {
	case err == nil:
		d.rest, d.done = d.rest[n:], d.done+n
	case errors.Is(err, syscall.EAGAIN):
		return false
	default:
		d.err = err
	}
	return true
}

// mostAtOnce is how many bytes one system call moves, because nothing can interrupt it: the garbage
// collector waits for its end. 64 KiB take some tens of µs.
const mostAtOnce = 64 << 10

// again makes a system call for a part of p, and repeats it if a signal has ended it.
func again(call func(uintptr, []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		n, err := call(fd, p[:min(len(p), mostAtOnce)])
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// failed returns the error of an operation as package net has it: callers such as net/http look at
// the operation's name.
func (c *Conn) failed(operation string, err error) error {
	var outer *net.OpError
	if errors.As(err, &outer) {
		err = outer.Err
	}
	var number syscall.Errno
	if errors.As(err, &number) {
		err = os.NewSyscallError(operation, number)
	}
	local := c.LocalAddr()
	return &net.OpError{Op: operation, Net: local.Network(), Source: local, Addr: c.RemoteAddr(), Err: err}
}
