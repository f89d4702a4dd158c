package db

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"velocityd/service"
)

// After a write timed out on a lock, shared batches skip that bucket for skipFor. A batch that may wait records all
// the same: if it times out again, that restarts the period.
const skipFor = 5 * time.Second

// timeouts remembers which writes have recently timed out on a lock of another session. A locking read,
// UPDATE or DELETE under REPEATABLE READ also locks the gaps between the rows that it reads, and
// stops every INSERT there. Neither SKIP LOCKED nor NOWAIT finds such a lock, and MySQL has no
// INSERT that does not wait.
type timeouts struct {
	making   interval // of lock rows, in zone_bucket_lock
	attempts interval // the recording of attempt ids, in zone_attempt

	// The recording of txns, in zone_txn. Gaps lie between the rows of neighbouring buckets, so
	// buckets are remembered one by one.
	mu    sync.Mutex
	until map[service.Bucket]time.Time
	any   atomic.Bool // until is not empty
}

// add remembers the buckets of a recording that timed out. It is unknown which of them it waited for.
func (t *timeouts) add(buckets ...service.Bucket) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.until, func(_ service.Bucket, until time.Time) bool { return until.Before(now) })
	if t.until == nil {
		t.until = map[service.Bucket]time.Time{}
	}
	for _, b := range buckets {
		t.until[b] = now.Add(skipFor)
	}
	t.any.Store(true)
}

// forget forgets buckets, because they were recorded.
func (t *timeouts) forget(buckets ...service.Bucket) {
	if !t.any.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range buckets {
		delete(t.until, b)
	}
	t.any.Store(len(t.until) > 0)
}

// has says that a recording of the bucket, or of others beside it, has recently timed out.
func (t *timeouts) has(b service.Bucket) bool {
	if !t.any.Load() {
		return false
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	until, isKnown := t.until[b]
	if isKnown && !now.Before(until) {
		delete(t.until, b)
		t.any.Store(len(t.until) > 0)
	}
	return now.Before(until)
}

// interval is a time that begins now and again, and lasts for skipFor.
type interval struct{ until atomic.Int64 } // Unix nanoseconds

func (p *interval) begin()      { p.until.Store(time.Now().Add(skipFor).UnixNano()) }
func (p *interval) lasts() bool { return time.Now().UnixNano() < p.until.Load() }
