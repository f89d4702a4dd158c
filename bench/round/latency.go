package round

import (
	"slices"
	"sync"
	"time"
)

// Latencies are those of a round. Several goroutines may call Record at once. The zero value has none.
type Latencies struct {
	lock sync.Mutex
	all  []time.Duration
}

// Record adds one latency.
func (l *Latencies) Record(d time.Duration) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.all = append(l.all, d)
}

// Into writes the latencies' quantiles into a summary. It must be called after all calls of Record.
func (l *Latencies) Into(s *Summary) {
	slices.Sort(l.all)
	s.P50, s.P99, s.Max = l.quantile(0.5), l.quantile(0.99), l.quantile(1)
}

// quantile returns the latency that a share q of all does not exceed, or 0 if there is none.
func (l *Latencies) quantile(q float64) time.Duration {
	if len(l.all) == 0 {
		return 0
	}
	return l.all[min(int(q*float64(len(l.all))), len(l.all)-1)]
}
