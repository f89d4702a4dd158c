package service

import (
	"math"
	"testing"
	"time"
)

func TestSecondsNeverComeRound(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]time.Duration{
		0: 0, 1: time.Second, -5: -5 * time.Second, 31622400: MaxWindow, 9223372036: 9223372036 * time.Second,
		9223372037: MaxWindow + time.Second, 18446744074: MaxWindow + time.Second, math.MaxInt64: MaxWindow + time.Second,
		math.MinInt64: MaxWindow + time.Second,
	} {
		if got := Seconds(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
	if got := WholeSeconds(1999 * time.Millisecond); got != 1 {
		t.Errorf("1.999 s are %d whole ones", got)
	}
}
