package round

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Cells are fine where latencies are short: exact below 2^fineBits nanoseconds,
// then 2^fineBits for each power of two, which is an error below 1 %.
const (
	fineBits = 7
	fine     = 1 << fineBits
	cells    = (64 - fineBits) * fine
)

// Histogram counts latencies. Several goroutines may Record at once; what the
// other methods say is true once they have ended. The zero value is empty.
type Histogram struct {
	counts [cells]atomic.Int64
}

// Record counts one latency; a negative one counts as none at all.
func (h *Histogram) Record(d time.Duration) {
	h.counts[cell(max(d, 0))].Add(1)
}

// Quantile returns the latency that the share q of all is not above, rounded down
// to its cell: at most 1 % too short. It is 0 if nothing was recorded.
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
