package service

import (
	"sync"
	"sync/atomic"
)

// callers counts those who are inside of a Coalescer, until it is closed and the
// last one has left.
type callers struct {
	inside    atomic.Int64  // and closing, once it is closed
	gone      chan struct{} // closed when a closed Coalescer is empty
	abandoned chan struct{} // closed when nobody shall wait any more
	wentAway  sync.Once
	gaveUp    sync.Once
}

// closing is a bit of callers.inside that no number of callers reaches.
const closing = 1 << 62

func newCallers() *callers {
	return &callers{gone: make(chan struct{}), abandoned: make(chan struct{})}
}

// enter says whether the caller may come in. Who may must leave again.
func (c *callers) enter() bool {
	if c.inside.Add(1)&closing == 0 {
		return true
	}
	c.leave()
	return false
}

func (c *callers) leave() { c.last(c.inside.Add(-1)) }

func (c *callers) close() { c.last(c.inside.Or(closing) | closing) }

// last says that nobody is inside if inside says so.
func (c *callers) last(inside int64) {
	if inside == closing {
		c.wentAway.Do(func() { close(c.gone) })
	}
}

// abandon lets all who wait go.
func (c *callers) abandon() { c.gaveUp.Do(func() { close(c.abandoned) }) }
