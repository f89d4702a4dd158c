package history

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"
	"time"

	"velocityd/service"
)

// mostRows is how many rows one statement reads at most, but for those of one instant of one bucket.
const mostRows = 5000

// index is the part of the history that a walk goes over, ordered by a coordinate: the ids of txns, or their time.
type index interface {
	// at returns the coordinate of a txn.
	at(txn service.Txn) uint64
	// read returns the txns of an interval with both ends, or some of them, if these are more than most: then isCut is
	// true, and if readsNearest is, too, the txns are those up to a coordinate, without those at it, which is rest.
	read(ctx context.Context, low, high uint64, most int) (txns []service.Txn, rest uint64, isCut bool, err error)
	// readsNearest says that read begins at the end of the interval at which the walk begins.
	readsNearest() bool
	// part returns how far an interval of a walk reaches that begins at from and should be width wide.
	part(from, width uint64) (to uint64)
}

// walk goes over an interval of an index, in parts that grow. No part of it is read twice, unless it held too many
// txns, so each partition is looked into about once.
type walk struct {
	over      index
	low, high uint64
	isUp      bool // from low to high
	width     uint64
	most      int // rows of the next statement
}

// txns yields the txns of the interval in order.
func (w walk) txns(ctx context.Context) iter.Seq2[service.Txn, error] {
	return func(yield func(service.Txn, error) bool) {
		for isDone := false; !isDone && w.low <= w.high; {
			low, high := w.part()
			txns, rest, isCut, err := w.over.read(ctx, low, high, w.most)
			if err != nil {
				yield(service.Txn{}, err)
				return
			}
			if isCut && !w.over.readsNearest() {
				w.narrow(low, high)
				continue
			}
			slices.SortFunc(txns, w.compare)
			for _, txn := range txns {
				if !yield(txn, nil) {
					return
				}
			}
			isDone = w.advance(low, high, rest, isCut, len(txns))
		}
	}
}

// part returns the next interval.
func (w *walk) part() (low, high uint64) {
	to := w.over.part(w.from(), w.width)
	if w.isUp {
		return w.low, min(w.high, max(w.low, to))
	}
	return max(w.low, min(w.high, to)), w.high
}

func (w *walk) from() uint64 {
	if w.isUp {
		return w.low
	}
	return w.high
}

// narrow makes the next part smaller, after one from low to high held too many txns.
func (w *walk) narrow(low, high uint64) {
	if low == high {
		w.most *= 2
	}
	w.width = max(1, (high-low)/8)
}

// advance goes on behind a part from low to high of which n txns were read, or at rest if it was cut. It says whether
// the walk ends.
func (w *walk) advance(low, high, rest uint64, isCut bool, n int) (isDone bool) {
	switch {
	case isCut && n == 0:
		w.most *= 2 // all are at one coordinate
		return false
	case isCut && w.isUp:
		w.low = rest
	case isCut:
		w.high = rest
	case w.isUp && high < w.high:
		w.low = high + 1
	case !w.isUp && low > w.low:
		w.high = low - 1
	default:
		return true
	}
	growth := uint64(2)
	if n < w.most/4 {
		growth = 8
	}
	if w.width < math.MaxUint64/growth {
		w.width *= growth
	}
	w.most = max(w.most, min(2*w.most, mostRows))
	return false
}

// compare is the order of the walk.
func (w *walk) compare(x, y service.Txn) int {
	order := cmp.Or(cmp.Compare(w.over.at(x), w.over.at(y)), cmp.Compare(x.ID, y.ID))
	if w.isUp {
		return order
	}
	return -order
}

// microseconds is the coordinate of a time: microseconds since 1970, which begins time.
func microseconds(t time.Time) uint64 { return uint64(max(t.UnixMicro(), 0)) }
