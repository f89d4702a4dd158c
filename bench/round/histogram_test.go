package round

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramIsWithinOnePercent(t *testing.T) {
	t.Parallel()
	var h Histogram
	random := rand.New(rand.NewPCG(1, 2))
	all := make([]time.Duration, 10_001)
	for i := range all {
		all[i] = time.Duration(random.ExpFloat64() * float64(3*time.Millisecond))
		h.Record(all[i])
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999} {
		want, got := all[int(q*float64(len(all)))], h.Quantile(q)
		if got > want || float64(want-got) > 0.01*float64(want) {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := h.Quantile(1); got > all[len(all)-1] || got < all[len(all)-2] {
		t.Errorf("quantile 1 is %v, want about %v", got, all[len(all)-1])
	}
}

func TestCellsFollowOneAnother(t *testing.T) {
	t.Parallel()
	for i := range cells - 1 {
		if floor(i) >= floor(i+1) {
			t.Fatalf("cell %d begins at %d and the next at %d", i, floor(i), floor(i+1))
		}
		if got := cell(floor(i)); got != i {
			t.Fatalf("the floor of cell %d falls into cell %d", i, got)
		}
		if got := cell(floor(i+1) - 1); got != i {
			t.Fatalf("the last latency of cell %d falls into cell %d", i, got)
		}
	}
}

func TestHistogramWithoutLatenciesHasNoQuantile(t *testing.T) {
	t.Parallel()
	var h Histogram
	if got := h.Quantile(0.5); got != 0 {
		t.Errorf("median of nothing is %v", got)
	}
	h.Record(-time.Second)
	h.Record(1<<63 - 1)
	if got := h.Quantile(0.5); got < 1<<62 {
		t.Errorf("quantile 0.5 of nothing and for ever is %v", got)
	}
}

func TestPerSecondCountsAnswersOnly(t *testing.T) {
	t.Parallel()
	s := Summary{Admitted: 30, Blocked: 10, Busy: 500, Errors: 7, Seconds: 2}
	if got := s.PerSecond(); got != 20 {
		t.Errorf("%v answers a second, want 20", got)
	}
	if got := (Summary{Admitted: 1}).PerSecond(); got != 0 {
		t.Errorf("%v answers a second in no time, want 0", got)
	}
}
