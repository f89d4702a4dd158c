package handlers

import (
	"bytes"
	"fmt"
	"sync"

	"velocityd/service"
)

// MaxCallBytes is how many bytes one call may need in memory: those of the longest body, and of its answer.
const MaxCallBytes = 4 << 20

// takeMemory counts so many bytes for x, unless more are counted for it already. A
// body counts by the length that its header announces, from before it is read until its
// answer is written, because the values decoded from it live as long. A body of
// unknown length counts as 64 KiB at first, and as 1 MiB once it has a slot. A request for a
// larger answer counts by the length of that. Tiny bodies and answers, which
// fit into a new buffer, are not counted: their connection takes more.
//
// The error wraps service.ErrBusy; earlier counts stay then. The refused caller is answered at once,
// and its connection closed, because net/http would first read the body.
func (x *exchange) takeMemory(length int64) error {
	more := int(length) - x.bodyBytes
	if length <= firstBuffer || x.server.bodies.Most == 0 || more <= 0 {
		return nil
	}
	if err := x.server.bodies.Take(x.server.shareKeyOf(x), more); err != nil {
		x.set(fieldConnection, "close")
		return fmt.Errorf("%w: %w", service.ErrBusy, err)
	}
	x.bodyBytes = int(length)
	return nil
}

// releaseMemory takes back the bytes that were counted for x.
func (x *exchange) releaseMemory() {
	if x.bodyBytes > 0 {
		x.server.bodies.GiveBack(x.server.shareKeyOf(x), x.bodyBytes)
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

// buffers are reused for the bodies of requests and for the answers of checks.
type buffers struct {
	pool sync.Pool // of *bytes.Buffer
}

const (
	// firstBuffer is the size of a new buffer, in bytes.
	firstBuffer = 1 << 10
	// mostKept is the largest buffer that is kept, in bytes. Larger ones are rare, and
	// keeping them would waste memory.
	mostKept = 64 << 10
)

// take returns an empty buffer, to be given back.
func (b *buffers) take() *bytes.Buffer {
	if kept, ok := b.pool.Get().(*bytes.Buffer); ok {
		return kept
	}
	return bytes.NewBuffer(make([]byte, 0, firstBuffer))
}

// giveBack takes a buffer back for later use. Its bytes must not be used any more.
func (b *buffers) giveBack(used *bytes.Buffer) {
	if used.Cap() <= mostKept {
		used.Reset()
		b.pool.Put(used)
	}
}
