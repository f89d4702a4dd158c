// Package sim simulates a cluster of velocityd by discrete events: callers, instances with their
// lanes and batches, vtgates, shards and their commits, row locks, the network, and processors as
// queues. It has a clock of its own and no goroutines, so one seed gives one result. It decides
// nothing: every check is answered, and whether it is allowed is not its business. It must not
// know how its inputs were measured.
package sim

import "time"

// clock carries out events in the order of their times. Events of one instant keep the order in
// which they were made.
type clock struct {
	now    time.Duration
	made   uint64
	events []event // a heap: the parent of i is (i-1)/2
}

type event struct {
	at time.Duration
	no uint64
	do func()
}

func (e event) before(other event) bool {
	return e.at < other.at || e.at == other.at && e.no < other.no
}

// after lets do happen after a delay.
func (c *clock) after(delay time.Duration, do func()) {
	c.made++
	c.events = append(c.events, event{at: c.now + max(delay, 0), no: c.made, do: do})
	for i := len(c.events) - 1; i > 0; {
		parent := (i - 1) / 2
		if !c.events[i].before(c.events[parent]) {
			return
		}
		c.events[i], c.events[parent] = c.events[parent], c.events[i]
		i = parent
	}
}

// run carries out events until the given time, which becomes the clock's, or until there are none.
func (c *clock) run(until time.Duration) {
	for len(c.events) > 0 && c.events[0].at <= until {
		next := c.pop()
		c.now = next.at
		next.do()
	}
	c.now = until
}

func (c *clock) pop() event {
	first, last := c.events[0], len(c.events)-1
	c.events[0] = c.events[last]
	c.events[last] = event{} // it must not keep what do refers to
	c.events = c.events[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if c.events[child].before(c.events[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		c.events[i], c.events[least] = c.events[least], c.events[i]
		i = least
	}
}
