package main

import (
	"fmt"
	"strings"
	"time"

	"velocityd/bench/sim"
)

// perShard is how many checks a second are asked for each shard of the simulated clusters: with 64
// shards a million.
const perShard = 15_625

// curve is one kind of cluster and traffic, at several sizes.
type curve struct {
	name    string
	buckets int
	sticky  int
	flood   float64 // of all checks, besides
	points  []point
}

type point struct {
	shards int
	result sim.Result
}

// curves are what is simulated.
func curves() []curve {
	return []curve{
		{name: "one bucket, keys at home", buckets: 1, sticky: homes},
		{name: "the same, and a flood on one key", buckets: 1, sticky: homes, flood: 0.2},
		{name: "one bucket, any instance", buckets: 1},
		{name: "user and address, keys at home", buckets: 2, sticky: homes},
	}
}

// sizes are the numbers of shards.
func sizes(most int) (list []int) {
	for n := 1; n <= most; n *= 2 {
		list = append(list, n)
	}
	return list
}

// simulate fills the curves.
func simulate(all []curve, most int, costs sim.Costs, fsync, length time.Duration, progress func(string)) error {
	for i := range all {
		for _, shards := range sizes(most) {
			began := time.Now()
			r, err := sim.Run(all[i].config(shards, costs, fsync, length))
			if err != nil {
				return fmt.Errorf("simulate %d shards, %s: %w", shards, all[i].name, err)
			}
			all[i].points = append(all[i].points, point{shards, r})
			progress(fmt.Sprintf("%-36s %2d shards: %7.0f of %7.0f checks/s, simulated in %.1f s", all[i].name, shards, r.PerSecond, r.Asked, time.Since(began).Seconds()))
		}
	}
	return nil
}

// config describes a cluster that has two instances and a vtgate for each shard, all on machines of
// their own.
func (c curve) config(shards int, costs sim.Costs, fsync, length time.Duration) sim.Config {
	lanes := sim.DefaultLanes(cores)
	lanes.ByShard = true
	rate := perShard * float64(shards)
	return sim.Config{
		Seed: seed, Warmup: length / 2, Length: length,
		Service: sim.Group{Count: max(homes, shards), Cores: cores}, Gate: sim.Group{Count: max(homes, shards), Cores: cores},
		Tablet: sim.Group{Cores: cores}, Server: sim.Group{Cores: cores}, Shards: shards,
		Lanes: lanes, Network: sim.Network{Client: way, Gate: way, Tablet: way}, Costs: costs, Aside: aside, Vary: vary,
		Fsync: fsync, Fsyncs: fsyncs, Cache: cache,
		Traffic: sim.Traffic{
			PerSecond: rate, Buckets: c.buckets, Flood: c.flood * rate, Sticky: c.sticky,
			// Few people log in often, many seldom; some addresses stand for many people.
			Users: sim.Keys{Count: 10_000_000, Exponent: 0.6}, Addresses: sim.Keys{Count: 5_000_000, Exponent: 0.6},
		},
	}
}

// writeCurves writes a table for each curve.
func writeCurves(b *strings.Builder, all []curve) {
	for _, c := range all {
		fmt.Fprintf(b, "#### %s\n\n", strings.ToUpper(c.name[:1])+c.name[1:])
		b.WriteString("| shards | asked | decided | p50 | p99 | checks in a batch | shards of a batch | velocityd | vtgate | vttablet | mysqld | disk | unsharded mysqld | sequence | what is short |\n")
		b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
		for _, p := range c.points {
			r := p.result
			used := func(kind string) string { return fmt.Sprintf("%.0f %%", 100*r.Use(kind).Most) }
			fmt.Fprintf(b, "| %d | %s | %s | %.1f ms | %.1f ms | %.1f | %.1f | %s | %s | %s | %s | %s | %s | %s | %s |\n",
				p.shards, grouped(r.Asked), grouped(r.PerSecond), r.P50.Seconds()*1e3, r.P99.Seconds()*1e3, r.Batch, r.Parts,
				used("velocityd"), used("vtgate"), used("vttablet"), used("mysqld"), used("disk"), used("unsharded mysqld"), used("the sequence"), short(r))
		}
		b.WriteString("\n")
		if c.flood > 0 {
			last := c.points[len(c.points)-1].result
			fmt.Fprintf(b, "Of the flood of %s checks a second at the last size, %s were decided.\n\n", grouped(c.flood*perShard*float64(c.points[len(c.points)-1].shards)), grouped(last.Flood))
		}
	}
}

// short names what is used up if not all was decided that was asked.
func short(r sim.Result) string {
	if r.PerSecond >= 0.97*r.Asked {
		return "nothing"
	}
	if bound := r.Bound(); bound != "" {
		return bound
	}
	return "queues still grow"
}
