package round

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Cells are exact below 2^fineBits nanoseconds. Above there are 2^fineBits for each power
// of two, so the error is below 1 %.
const (
	fineBits = 7
	fine     = 1 << fineBits
	cells    = (64 - fineBits) * fine
)

// Histogram counts latencies. Several goroutines may call Record at once. The other
// methods must be called after they have ended. The zero value is an empty histogram.
type Histogram struct {
	counts [cells]atomic.Int64
}

// Record counts one latency. A negative one counts as 0.
func (h *Histogram) Record(d time.Duration) {
	h.counts[cell(max(d, 0))].Add(1)
}

// Quantile returns the latency that a share q of all does not exceed, rounded down to its
// cell, which is at most 1 % too short. It returns 0 if nothing was recorded.
func (h *Histogram) Quantile(q float64) time.Duration {
	var total int64
	for i := range h.counts {
		total += h.counts[i].Load()
	}
	// The rank of the wanted one, counted from 1.
	rank := min(int64(q*float64(total))+1, total)
	var seen int64
	for i := range h.counts {
		if seen += h.counts[i].Load(); seen >= rank && rank > 0 {
			return floor(i)
		}
	}
	return 0
}

// cell is the cell of a latency, floor the shortest latency of a cell.
func cell(d time.Duration) int {
	n := uint64(d)
	shift := max(bits.Len64(n)-fineBits-1, 0)
	return shift<<fineBits + int(n>>shift)
}

func floor(i int) time.Duration {
	if i < 2*fine {
		return time.Duration(i)
	}
	shift := i>>fineBits - 1
	return time.Duration((i - shift<<fineBits) << shift)
}
