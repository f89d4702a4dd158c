package main

import (
	"fmt"
	"strings"
	"time"

	"velocityd/bench/round"
	"velocityd/bench/sim"
)

// wake is what a message takes on the loopback of one machine, besides the processor times of
// both sides: an assumption, since it is too short to be measured apart.
const wake = 20 * time.Microsecond

// aside and vary are chosen so that the simulation comes near to the measured latencies: a third of
// the processor time of a lone check is not on its way, and times differ by three quarters.
const (
	aside = 0.3
	vary  = 0.7
)

// seed of every simulation that is printed, so that a page can be made again.
const seed = 1

// held is one run beside its simulation.
type held struct {
	run       round.Run
	simulated sim.Result
}

// hold simulates each run on the machine on which it was measured.
func hold(runs round.Runs, list []round.Run, costs sim.Costs, length time.Duration) ([]held, error) {
	var all []held
	for _, r := range list {
		result, err := sim.Run(asMeasured(runs, r, costs, length))
		if err != nil {
			return nil, fmt.Errorf("simulate %q: %w", r.Name, err)
		}
		all = append(all, held{r, result})
	}
	return all, nil
}

// asMeasured describes the cluster of a run: all processes on the cores of one machine.
func asMeasured(runs round.Runs, r round.Run, costs sim.Costs, length time.Duration) sim.Config {
	lanes := sim.DefaultLanes(runs.Cores)
	c := sim.Config{
		Seed: seed, Warmup: length / 2, Length: length, Machine: runs.Cores,
		Service: sim.Group{Count: 1}, Shards: 1, Lanes: lanes, Costs: costs,
		Network: sim.Network{Client: wake, Gate: wake, Tablet: wake}, Aside: aside, Vary: vary,
		Fsync: millis(runs.Fsync), Fsyncs: fsyncs, Cache: cache,
		Traffic: sim.Traffic{Callers: r.Callers, Buckets: r.Buckets, Users: sim.Keys{Count: 100_000}, Addresses: sim.Keys{Count: 100_000}, Shared: r.Hot},
	}
	if r.Shards > 0 {
		c.Gate, c.Shards = sim.Group{Count: 1}, r.Touched
		c.Lanes.ByShard = true
	}
	return c
}

func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// writeHeld writes a table of runs and their simulations.
func writeHeld(b *strings.Builder, all []held) {
	b.WriteString("| run | | measured | simulated | error |\n|---|---|---|---|---|\n")
	for _, h := range all {
		line := func(what, format string, measured, simulated float64) {
			if measured > 0 {
				fmt.Fprintf(b, "| %s | %s | "+format+" | "+format+" | %+.0f %% |\n", h.run.Name, what, measured, simulated, 100*(simulated/measured-1))
			}
		}
		line("checks/s", "%.0f", h.run.PerSecond, h.simulated.PerSecond)
		line("p50, ms", "%.2f", h.run.P50, h.simulated.P50.Seconds()*1e3)
		line("p99, ms", "%.2f", h.run.P99, h.simulated.P99.Seconds()*1e3)
		line("checks in a batch", "%.1f", h.run.Batch, h.simulated.Batch)
		for _, kind := range round.Kinds() {
			line("CPU "+kind+", µs a check", "%.1f", h.run.CPU[kind], h.simulated.CPU[kind].Seconds()*1e6)
		}
	}
	b.WriteString("\n")
}
