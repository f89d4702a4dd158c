package handlers

import (
	"sync/atomic"

	"velocityd/service"
)

// bodyMemory counts the bytes of bodies that are in memory, and bounds them. A body
// counts by the length that its header announces, from before it is read until its
// answer is ready, because what is decoded from it lives as long. One of unknown length
// counts as the longest that it may be without a slot, and then as the longest of all.
// Tiny bodies, which fit into a new buffer, are not counted: their connection takes more.
type bodyMemory struct {
	most int64 // 0 means any number
	held atomic.Int64
}

// takeMemory counts a body of up to this length for x. It replaces what was counted for
// x before. The error wraps service.ErrBusy; what was counted stays then. The refused
// caller is answered at once, and its connection closed, because net/http would first
// read the body.
func (s *server) takeMemory(x *exchange, length int64) error {
	m := &s.bodies
	if length <= firstBuffer || m.most == 0 {
		return nil
	}
	if more := length - x.bodyBytes; m.held.Add(more) > m.most {
		m.held.Add(-more)
		x.set(fieldConnection, "close")
		return service.NewBusyError(service.BusyRetryAfter, "too many bytes of bodies in memory")
	}
	x.bodies, x.bodyBytes = m, length
	return nil
}

// leaveMemory takes back what was counted for the body of x.
func (x *exchange) leaveMemory() {
	if x.bodies != nil {
		x.bodies.held.Add(-x.bodyBytes)
		x.bodies, x.bodyBytes = nil, 0
	}
}
