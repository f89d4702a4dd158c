package queue

import (
	"sync"
	"sync/atomic"
)

// callers counts the callers inside a Coalescer, until it is closed and the last has left.
type callers struct {
	inside    atomic.Int64  // and closing, once it is closed
	gone      chan struct{} // closed when a closed Coalescer is empty
	abandoned chan struct{} // closed when waiting callers must return
	wentAway  sync.Once
	gaveUp    sync.Once
}

// closing is a bit of callers.inside that no number of callers reaches.
const closing = 1 << 62

func newCallers() *callers {
	return &callers{gone: make(chan struct{}), abandoned: make(chan struct{})}
}

// enter says whether the caller is admitted. An admitted caller must call leave.
func (c *callers) enter() bool {
	if c.inside.Add(1)&closing == 0 {
		return true
	}
	c.leave()
	return false
}

func (c *callers) leave() { c.noticeEmpty(c.inside.Add(-1)) }

func (c *callers) close() { c.noticeEmpty(c.inside.Or(closing) | closing) }

// noticeEmpty closes gone if inside says that the Coalescer is closed and empty.
func (c *callers) noticeEmpty(inside int64) {
	if inside == closing {
		c.wentAway.Do(func() { close(c.gone) })
	}
}

// abandon lets all waiting callers return.
func (c *callers) abandon() { c.gaveUp.Do(func() { close(c.abandoned) }) }
