package handlers

import (
	"bytes"
	"sync"
)

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
