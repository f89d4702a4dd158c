package sim

import (
	"slices"
	"time"
)

// check is one question on its way, and its caller.
type check struct {
	buckets  []bucket
	caller   int // of a closed loop; -1 otherwise
	flood    bool
	asked    time.Duration
	instance *instance
	lane     *lane
	tries    int // in its lane
}

// lane is a queue of checks that share batches, as service.Coalescer has them. A test holds the
// two against each other.
type lane struct {
	clock    *clock
	start    func(l *lane, checks []*check) *batch
	settings Lanes
	calls    int // batches that may be under way at once
	// waits is true in the lane for held buckets: its batches wait for them.
	waits bool

	queue   []*check
	waiting map[bucket]int
	claimed map[bucket]int // in batches under way
	free    int            // checks of the queue that have no bucket in a batch under way
	batched int            // checks of batches under way
	taken   map[bucket]int // of the batch that is being filled
	working int
	busy    time.Duration // summed over the batches that ended
	begun   map[*batch]time.Duration
}

func newLane(c *clock, start func(*lane, []*check) *batch, settings Lanes, calls int, waits bool) *lane {
	return &lane{
		clock: c, start: start, settings: settings, calls: calls, waits: waits,
		waiting: map[bucket]int{}, claimed: map[bucket]int{}, taken: map[bucket]int{}, begun: map[*batch]time.Duration{},
	}
}

// join puts a check into the queue. It returns false if the check is refused for want of room.
func (l *lane) join(c *check) bool {
	if len(l.queue) >= l.settings.Queue || anyReaches(c, l.waiting, l.settings.PerBucket) {
		return false
	}
	l.queue = append(l.queue, c)
	count(l.waiting, c, 1)
	if l.isFree(c) {
		l.free++
	}
	l.begin()
	return true
}

// begin starts batches while one may begin.
func (l *lane) begin() {
	for l.mayBegin() {
		var checks []*check
		if l.waits {
			checks = l.fillHeld()
		} else {
			checks = l.fill()
		}
		l.claim(checks, 1)
		l.working++
		l.begun[l.start(l, checks)] = l.clock.now
	}
}

// ended lets the next batch begin. The answers are given afterwards, as the coalescer does.
func (l *lane) ended(b *batch) {
	l.working--
	l.busy += l.clock.now - l.begun[b]
	delete(l.begun, b)
	l.claim(b.checks, -1)
	l.begin()
}

// enough is service's: how many checks must wait before another batch begins beside one under way.
const enough = 28

// mayBegin is service's rule for another batch.
func (l *lane) mayBegin() bool {
	if l.working == 0 || l.waits {
		return l.free > 0 && l.working < l.calls
	}
	return l.working < l.calls && l.free >= min(enough, l.settings.Queue) && l.free*l.working >= l.batched
}

// claim notes that a batch of checks begins, by 1, or has ended, by -1.
func (l *lane) claim(checks []*check, by int) {
	l.batched += by * len(checks)
	shared := false
	for _, c := range checks {
		count(l.claimed, c, by)
		shared = shared || anyReaches(c, l.waiting, 1)
	}
	if !shared {
		return
	}
	l.free = 0
	for _, c := range l.queue {
		if l.isFree(c) {
			l.free++
		}
	}
}

// isFree says that no batch under way has a bucket of the check.
func (l *lane) isFree(c *check) bool { return !anyReaches(c, l.claimed, 1) }

// leastShare is service's: how many checks of one bucket a batch takes in any case.
const leastShare = 16

// fill takes checks from the head of the queue. While checks of other buckets wait, one bucket gets
// a quarter of the batch at most.
func (l *lane) fill() (checks []*check) {
	share := l.share()
	clear(l.taken)
	l.queue = slices.DeleteFunc(l.queue, func(c *check) bool {
		if len(checks) == l.settings.Batch || !l.isFree(c) || anyReaches(c, l.taken, share) {
			return false
		}
		checks = append(checks, l.take(c))
		count(l.taken, c, 1)
		return true
	})
	return checks
}

// fillHeld takes the first check that has no bucket in a batch under way, and those behind it that
// share a bucket with it.
func (l *lane) fillHeld() (checks []*check) {
	clear(l.taken)
	l.queue = slices.DeleteFunc(l.queue, func(c *check) bool {
		first := len(checks) == 0
		if len(checks) == l.settings.Batch || !l.isFree(c) || !first && !anyReaches(c, l.taken, 1) {
			return false
		}
		checks = append(checks, l.take(c))
		if first {
			count(l.taken, c, 1)
		}
		return true
	})
	return checks
}

func (l *lane) take(c *check) *check {
	count(l.waiting, c, -1)
	l.free--
	return c
}

func (l *lane) share() int {
	share := max(leastShare, min(l.free, l.settings.Batch)/4)
	isOther := func(c *check) bool { return l.isFree(c) && !anyReaches(c, l.waiting, share+1) }
	if l.free <= share || slices.ContainsFunc(l.queue, isOther) {
		return share
	}
	return l.settings.Batch
}

func anyReaches(c *check, counted map[bucket]int, n int) bool {
	for _, b := range c.buckets {
		if counted[b] >= n {
			return true
		}
	}
	return false
}

func count(counted map[bucket]int, c *check, by int) {
	for _, b := range c.buckets {
		if counted[b] += by; counted[b] == 0 {
			delete(counted, b)
		}
	}
}
