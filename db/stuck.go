package db

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"velocityd/service"
)

// After a write timed out on a lock, shared batches skip that bucket for stuckFor. A batch that may wait records all
// the same: if it times out again, that restarts the period.
const stuckFor = 5 * time.Second

// stuck remembers which writes have recently timed out on a lock of another session. A locking read,
// UPDATE or DELETE under REPEATABLE READ also locks the gaps between the rows that it reads, and
// stops every INSERT there. Neither SKIP LOCKED nor NOWAIT finds such a lock, and MySQL has no
// INSERT that does not wait.
type stuck struct {
	making   spell // of lock rows, in zone_bucket_lock
	attempts spell // the recording of attempt ids, in zone_attempt

	// The recording of txns, in zone_txn. Gaps lie between the rows of neighbouring buckets, so
	// buckets are remembered one by one.
	mu    sync.Mutex
	until map[service.Bucket]time.Time
	any   atomic.Bool // until is not empty
}

// waited remembers the buckets of a recording that timed out. Nobody knows which of them it waited for.
func (s *stuck) waited(buckets ...service.Bucket) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.until, func(_ service.Bucket, until time.Time) bool { return until.Before(now) })
	if s.until == nil {
		s.until = map[service.Bucket]time.Time{}
	}
	for _, b := range buckets {
		s.until[b] = now.Add(stuckFor)
	}
	s.any.Store(true)
}

// recorded forgets buckets, because they were recorded.
func (s *stuck) recorded(buckets ...service.Bucket) {
	if !s.any.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range buckets {
		delete(s.until, b)
	}
	s.any.Store(len(s.until) > 0)
}

// has says that a recording of the bucket, or of others beside it, has recently timed out.
func (s *stuck) has(b service.Bucket) bool {
	if !s.any.Load() {
		return false
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	until, isKnown := s.until[b]
	if isKnown && !now.Before(until) {
		delete(s.until, b)
		s.any.Store(len(s.until) > 0)
	}
	return now.Before(until)
}

// spell is a time that begins now and again, and lasts for stuckFor.
type spell struct{ until atomic.Int64 } // Unix nanoseconds

func (s *spell) begin()      { s.until.Store(time.Now().Add(stuckFor).UnixNano()) }
func (s *spell) lasts() bool { return time.Now().UnixNano() < s.until.Load() }
