// Package history reads recorded attempts: one by its id, those of a check, those of an attempt id, and the history
// page by page. It knows which ids belong to which time, so that a statement looks into the partitions of that time
// alone. It must not decide anything, and it writes nothing but marks.
package history

import (
	"sync/atomic"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/refresh"
)

// Reader reads the history in one database. It may be used by many goroutines at once.
type Reader struct {
	pool  *session.Pool
	fresh *refresh.Cache[[]mark]
	marks atomic.Pointer[[]mark]
}

var _ service.HistoryStore = (*Reader)(nil)

// New returns a Reader that uses a pool.
func New(pool *session.Pool) *Reader {
	r := &Reader{pool: pool}
	r.fresh = refresh.New(marksTimeout, r.readMarks)
	r.marks.Store(new([]mark))
	return r
}
