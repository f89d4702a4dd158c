package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	"velocityd/db/dbtest"
)

// TestCollectorLeavesRoomForWhatLives is not parallel: the collector is one for
// all tests.
func TestCollectorLeavesRoomForWhatLives(t *testing.T) {
	percent := debug.SetGCPercent(100)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(math.MaxInt64)
	})
	paceCollector()
	limit := func() int64 { return debug.SetMemoryLimit(-1) }
	if limit() < smallMemory {
		t.Errorf("the limit is %d, want at least %d", limit(), int64(smallMemory))
	}
	alive := make([][]byte, 200)
	for i := range alive {
		alive[i] = make([]byte, 1<<20)
	}
	dbtest.Eventually(t, "a limit above the 200 MiB that live", func() bool {
		runtime.GC()
		return limit() >= 300<<20
	})
	runtime.KeepAlive(alive)
	alive = nil
	dbtest.Eventually(t, "a limit that has come down with what lives", func() bool {
		runtime.GC()
		return limit() < 300<<20
	})
}
