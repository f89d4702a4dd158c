package service_test

import (
	"math"
	"testing"
	"time"

	"velocityd/service"
)

func TestSecondsStopAtWhatADurationHolds(t *testing.T) {
	t.Parallel()
	const most = int64(math.MaxInt64 / time.Second)
	for n, want := range map[int64]int64{
		0: 0, 1: 1, -1: -1, 31_622_400: 31_622_400, most: most, most + 1: most, math.MaxInt64: most,
		-most: -most, -most - 1: -most, math.MinInt64: -most,
	} {
		if got := service.WholeSeconds(service.Seconds(n)); got != want {
			t.Errorf("%d seconds became %d, want %d", n, got, want)
		}
	}
	if got := service.WholeSeconds(1999 * time.Millisecond); got != 1 {
		t.Errorf("1.999 s has %d whole seconds, want 1", got)
	}
}
