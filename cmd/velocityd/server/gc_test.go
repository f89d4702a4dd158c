package server

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	"velocityd/tools/enginetest"
)

// TestCollectorLeavesRoomForWhatLives sets the collector of all tests meanwhile,
// which is nothing to them.
func TestCollectorLeavesRoomForWhatLives(t *testing.T) {
	t.Parallel()
	percent := debug.SetGCPercent(100)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(math.MaxInt64)
	})
	PaceCollector()
	limit := func() int64 { return debug.SetMemoryLimit(-1) }
	if limit() < smallMemory {
		t.Errorf("the limit is %d, want at least %d", limit(), int64(smallMemory))
	}
	alive := make([][]byte, 220)
	for i := range alive {
		alive[i] = make([]byte, 1<<20)
	}
	enginetest.Eventually(t, "a limit above the 220 MiB that live", func() bool {
		runtime.GC()
		return limit() >= 300<<20
	})
	runtime.KeepAlive(alive)
	enginetest.Eventually(t, "a limit that has come down with what lives", func() bool {
		runtime.GC()
		return limit() < 300<<20
	})
}
