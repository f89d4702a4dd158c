//go:build linux

package main

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// span is a part of a round, by the monotonic clock of this program, from the round's begin.
type span struct{ begin, end time.Duration }

// forever is the end of a call that got no answer: it may take effect later.
const forever = time.Duration(math.MaxInt64)

func (s span) meets(o span) bool { return s.begin <= o.end && o.begin <= s.end }

// state says how a call ended. Of several tries the highest counts.
type state int

const (
	refused  state = iota // with an error that says that nothing was counted
	unknown               // without an answer, or with one that leaves it open: it may have been counted
	degraded              // answered without the database
	acked                 // answered
)

type bucket struct {
	Zone int    `db:"zone_id"    json:"zone_id"`
	Key  string `db:"bucket_key" json:"bucket_key"`
}

// answer is that for a bucket.
type answer struct {
	bucket

	WouldBlock bool   `json:"would_block"`
	Reason     string `json:"reason"`
	Txn        uint64 `json:"txn_id,string"` // 0: the door tells none
	velocity   int    // -1: not told
}

// attempt is a check as its caller saw it. All tries have one attempt id.
type attempt struct {
	span // from the first try to the answer

	door    string
	name    string // attempt id, or ""
	secret  string
	isFresh bool // no other attempt has its secret
	buckets []bucket
	state   state
	blocked bool
	answers []answer
	at      time.Time // checked_at, or zero
	again   []answer  // the answer to the same question once more
	tries   []try
	fault   string // the last error
}

// try is one call.
type try struct {
	span

	door  string
	state state
}

// change is an outcome, a release, or an erasure, as its caller saw it.
type change struct {
	span

	door    string
	kind    string // success, failure, release or erase
	attempt *attempt
	buckets []bucket
	state   state
	isLate  bool // refused with 409
}

// records are all that callers saw in a round. They are bounded by the round's time and the callers' pace.
type records struct {
	began time.Time

	mu       sync.Mutex
	attempts []*attempt
	changes  []*change
	stepped  atomic.Int64 // when the engine's clock was set for the first time; 0: never
}

func newRecords() *records { return &records{began: time.Now()} }

// now is the time since the round's begin.
func (r *records) now() time.Duration { return time.Since(r.began) }

// wall is the wall clock's time at a time of the round.
func (r *records) wall(d time.Duration) time.Time { return r.began.Add(d) }

// add adds to one of the records' lists.
func add[T any](r *records, list *[]T, one T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, one)
}
