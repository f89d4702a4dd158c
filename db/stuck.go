package db

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"velocityd/service"
)

const (
	// stuckFor is how long calls that others share leave alone what a call has waited for in vain.
	// Calls that may wait prolong it. Once in that time one that is shared may wait again.
	stuckFor = 5 * time.Second
	// rehearsedFor is how long a bucket is refused without another rehearsal, so that the calls that
	// may wait are not all used up by buckets that are stuck.
	rehearsedFor = time.Second
)

// stuck remembers which writes have recently waited in vain for another session. A locking read,
// UPDATE or DELETE under REPEATABLE READ also locks the gaps between the rows that it reads, and
// stops every INSERT there. Neither SKIP LOCKED nor NOWAIT finds such a lock, and MySQL has no
// INSERT that does not wait.
type stuck struct {
	making   spell // of lock rows, in zone_bucket_lock
	attempts spell // the recording of attempt ids, in zone_attempt

	// The recording of txns, in zone_txn. Gaps lie between the rows of neighbouring buckets, so
	// buckets are remembered one by one.
	mu      sync.Mutex
	buckets map[service.Bucket]stuckBucket
	any     atomic.Bool // buckets is not empty
}

// stuckBucket says until when a bucket is left alone, and from when on it may be rehearsed.
type stuckBucket struct{ until, due time.Time }

// waited remembers buckets which a call has waited in vain to record. Nobody knows for which of them
// it waited, so each is due for a rehearsal.
func (s *stuck) waited(buckets ...service.Bucket) { s.add(0, buckets) }

// rehearsed remembers buckets whose rehearsal has waited in vain.
func (s *stuck) rehearsed(buckets ...service.Bucket) {
	if len(buckets) > 1 {
		s.add(0, buckets)
		return
	}
	s.add(rehearsedFor, buckets)
}

func (s *stuck) add(pause time.Duration, buckets []service.Bucket) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.buckets, func(_ service.Bucket, b stuckBucket) bool { return b.until.Before(now) })
	if s.buckets == nil {
		s.buckets = map[service.Bucket]stuckBucket{}
	}
	for _, b := range buckets {
		s.buckets[b] = stuckBucket{until: now.Add(stuckFor), due: now.Add(pause)}
	}
	s.any.Store(true)
}

// recorded forgets a bucket, because it was recorded.
func (s *stuck) recorded(b service.Bucket) {
	if !s.any.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.buckets, b)
	s.any.Store(len(s.buckets) > 0)
}

// has says that a bucket is to be left alone.
func (s *stuck) has(b service.Bucket) bool {
	found, isStuck := s.find(b)
	return isStuck && time.Now().Before(found.until)
}

// isDue says that a bucket was stuck and may be rehearsed.
func (s *stuck) isDue(b service.Bucket) bool {
	found, isStuck := s.find(b)
	return isStuck && !time.Now().Before(found.due)
}

func (s *stuck) find(b service.Bucket) (found stuckBucket, isStuck bool) {
	if !s.any.Load() {
		return stuckBucket{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, isStuck = s.buckets[b]
	return found, isStuck
}

// spell is a time that begins now and again, and lasts for stuckFor.
type spell struct{ until atomic.Int64 } // Unix nanoseconds

func (s *spell) begin()      { s.until.Store(time.Now().Add(stuckFor).UnixNano()) }
func (s *spell) lasts() bool { return time.Now().UnixNano() < s.until.Load() }
