package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcPercent is how far the heap may outgrow what lives in it, while the process
	// is small. With 50, which saves memory, collecting took a fifth of a busy
	// service's time: its garbage is large against what lives.
	gcPercent = 150
	// smallMemory is what the process may hold for that, in bytes, without the
	// binary's own pages: so 2,000 connections stay below 100 MiB.
	smallMemory = 84 << 20
)

// paceCollector trades memory for time as long as there is little of it: garbage
// is collected seldom until the process holds smallMemory, and beyond that once it
// makes a third of it. It is set anew after each collection, for good.
func paceCollector() {
	debug.SetGCPercent(gcPercent)
	awaitCollection()
}

func awaitCollection() {
	debug.SetMemoryLimit(memoryLimit(living()))
	// The next collection is the one that finds this object dead.
	runtime.AddCleanup(new(struct{ _ [64]byte }), func(struct{}) { awaitCollection() }, struct{}{})
}

// memoryLimit leaves room for half of what lives, because a limit below or near
// that would have the collector run without a pause.
func memoryLimit(living uint64) int64 {
	return int64(max(smallMemory, living+living/2))
}

// living is what the last collection found alive, and the stacks, in bytes.
func living() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() + samples[1].Value.Uint64()
}
