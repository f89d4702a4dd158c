package workload

import (
	"testing"
	"time"
)

func TestQuantilesAreThoseOfAllLatencies(t *testing.T) {
	t.Parallel()
	var s Summary
	if s.Over(nil); s != (Summary{}) {
		t.Errorf("of no latencies: %+v", s)
	}
	var all []time.Duration
	for n := range 1000 {
		all = append(all, time.Duration(999-n)*time.Millisecond)
	}
	s.Over(all)
	if s.P50 != 500*time.Millisecond || s.P99 != 990*time.Millisecond || s.Max != 999*time.Millisecond {
		t.Errorf("of 0 to 999 ms: %v, %v, %v", s.P50, s.P99, s.Max)
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

func TestNumbersHaveFiveDigits(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{
		0: "00000", 7: "00007", 10: "00010", 9_999: "09999", 12_345: "12345",
		100_000: "100000",
	} {
		if got := string(AppendNumber(nil, n)); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
