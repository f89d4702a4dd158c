package handlers

import (
	"sync/atomic"

	"velocityd/service"
)

// bodyMemory counts the bytes of bodies and answers that are in memory, and bounds them. A
// body counts by the length that its header announces, from before it is read until its
// answer is written, because the values decoded from it live as long. A body of
// unknown length counts as 64 KiB at first, and as 1 MiB once it has a slot. A request for a
// larger answer counts by the length of that. Tiny bodies and answers, which
// fit into a new buffer, are not counted: their connection takes more.
type bodyMemory struct {
	most int64 // 0 means any number
	held atomic.Int64
}

// takeMemory counts so many bytes for x, unless more are counted for it already. The error
// wraps service.ErrBusy; earlier counts stay then. The refused caller is answered at once,
// and its connection closed, because net/http would first read the body.
func (x *exchange) takeMemory(length int64) error {
	m, more := x.bodies, length-x.bodyBytes
	if length <= firstBuffer || m.most == 0 || more <= 0 {
		return nil
	}
	if m.held.Add(more) > m.most {
		m.held.Add(-more)
		x.set(fieldConnection, "close")
		return service.NewBusyError(service.BusyRetryAfter, "too many bytes of bodies and answers in memory")
	}
	x.bodyBytes = length
	return nil
}

// leaveMemory takes back the bytes that were counted for x.
func (x *exchange) leaveMemory() {
	if x.bodyBytes > 0 {
		x.bodies.held.Add(-x.bodyBytes)
		x.bodyBytes = 0
	}
}

// The most bytes that an answer takes for one check or report, and for one bucket besides its
// key, with the values that they are encoded from.
const (
	resultBytes  = 384
	verdictBytes = 256
)

// answerBytes returns how long the answer for some checks can be.
func answerBytes(checks []service.Check) (n int64) {
	for _, check := range checks {
		n += resultBytes
		for _, b := range check.Buckets {
			n += verdictBytes + int64(len(b.Key))
		}
	}
	return n
}
