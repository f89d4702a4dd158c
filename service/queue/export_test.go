package queue

import "time"

// Enough is how many checks must wait before another call begins beside one under way.
const Enough = minGathered

// MostRemembered is how many buckets a Circuit remembers.
const MostRemembered = mostRemembered

// RememberAtMost has a Circuit that remembers fewer buckets remember so many from now on.
func (c *Circuit) RememberAtMost(most int) { c.memory.most = most }

// SilentFor has a Circuit believe that the store has been silent for so long.
func (c *Circuit) SilentFor(silence func() time.Duration) { c.silence = silence }

// Waiting is how many callers wait in each lane for lone checks.
func (c *Coalescer) Waiting() []int {
	waiting := make([]int, len(c.lanes))
	for i, l := range c.lanes {
		waiting[i] = l.waits()
	}
	return waiting
}

// WaitingForHeld is how many callers wait for buckets that are held.
func (c *Coalescer) WaitingForHeld() int { return c.held.waits() }

func (l *lane) waits() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}

// Working is how many calls for lone checks are under way.
func (c *Coalescer) Working() int {
	lone, _, _ := c.Use()
	return lone.Busy
}
