package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"velocityd/bench/sim"
)

// What the plans suppose and nobody has measured here.
const (
	way      = 100 * time.Microsecond // a message between two machines of a data centre, one way
	fsyncs   = 2                      // for a group of commits: the engine's log and the binary log
	busy     = 0.5                    // how much of a core is planned to be used, so that one of two may fail
	cores    = 8                      // of each machine
	cache    = 10_000                 // ids of the sequence that the vttablet takes at once
	homes    = 2                      // instances that the callers of one shard's keys ask, where a balancer sends them so
	txnBytes = 151                    // of zone_txn and its index, docs/performance.md "Bytes on disk", partitioned by day
	logBytes = 47                     // of the binary log for a check of one bucket in a batch, the same table
	keptDays = 90
)

// plan is what a rate of checks needs.
type plan struct {
	perSecond float64
	buckets   int
	sticky    bool // each key's checks come to the same few instances
	shards    int
	instances int
	gates     int
	batch     float64       // checks in one
	parts     float64       // shards that a batch touches
	takes     time.Duration // a batch
	need      need
}

// need is cores and disk, not yet divided by busy.
type need struct {
	service, gate, tablet, server, zoneTablet, zoneServer float64 // cores
	batches                                               float64 // a second
	commits                                               float64 // a second and shard
	fsyncs                                                float64 // a second and shard, if no commits share theirs
	written                                               float64 // bytes a second, of rows and binary logs
	kept                                                  float64 // bytes of history
	blocks                                                float64 // of ids, a second
}

// longest is how many checks of a batch are planned for: longer batches would make callers wait for
// many of their kind, and at 500 a lane has no more to give. mostShards ends the search.
const (
	longest    = 100
	mostShards = 512
)

// newPlan finds the number of shards and instances, and the length of batches that follows: more
// instances and shards make shorter batches, which cost more for a check, and so on until it rests.
// Where lanes are too few, it takes more shards for checks of one bucket, since lanes are by shard,
// and more instances for those of two. There may be no such size: then shards are above mostShards.
func newPlan(perSecond float64, buckets int, sticky bool, costs sim.Costs, fsync time.Duration) plan {
	p := plan{perSecond: perSecond, buckets: buckets, sticky: sticky, shards: 1, instances: homes, gates: 1, batch: 1}
	for p.shards <= mostShards {
		was := p
		p.fill(costs, fsync)
		p.demand(costs)
		p.shards = max(p.shards, machines(p.need.server), machines(p.need.tablet))
		p.instances, p.gates = max(p.instances, machines(p.need.service)), max(p.gates, machines(p.need.gate))
		switch {
		case p.shards != was.shards || p.instances != was.instances:
		case p.batch <= longest:
			return p
		case buckets == 1:
			p.shards++
		default:
			p.instances += max(p.instances/20, 1)
			if p.instances > 100*mostShards {
				p.shards = mostShards + 1
			}
		}
	}
	return p
}

// exists says whether there is such a size.
func (p plan) exists() bool { return p.shards <= mostShards }

// machines returns how many machines have so many cores, busy as planned.
func machines(need float64) int { return int(math.Ceil(need / busy / cores)) }

// fill finds how many checks meet in a batch: as many as come to a lane while the batch before is
// under way, and at least one.
func (p *plan) fill(costs sim.Costs, fsync time.Duration) {
	for range 200 {
		p.parts = partsOf(p.batch, p.buckets, p.shards)
		p.takes = p.length(costs, fsync)
		next := min(max(p.meet(), 1), 500)
		p.batch += (next - p.batch) / 4
	}
}

// enough is service's: how many checks wait before another batch begins beside one under way.
const enough = 28

// meet returns how many checks come to a lane while a batch is under way.
func (p *plan) meet() float64 {
	if p.buckets == 1 {
		lanes := p.shards * p.instances
		if p.sticky {
			lanes = p.shards * homes
		}
		return p.perSecond / float64(lanes) * p.takes.Seconds()
	}
	// Nearly all checks of two buckets are for the lane over several shards, which may have a batch
	// under way for each core.
	coming := p.perSecond / float64(p.instances) * p.takes.Seconds()
	return max(min(coming, enough), coming/cores)
}

// length is how long a batch takes if it waits for no core: the calls one after the other, and the
// work of each. Shards are locked, read and committed one by one, and written at once.
func (p *plan) length(costs sim.Costs, fsync time.Duration) time.Duration {
	named := p.batch * float64(p.buckets)
	of := func(c sim.Cost) float64 {
		return c.Batch.Seconds() + p.parts*c.Part.Seconds() + named*c.Bucket.Seconds()
	}
	ways := 4 + 2*(3*p.parts+3) // to the vtgate; locks, reading and commits; zones, ids and inserting
	seconds := ways*way.Seconds() + p.parts*fsyncs*fsync.Seconds() + of(costs.Service) + of(costs.Gate) +
		of(costs.Tablet) + of(costs.Server) + costs.ZoneTablet.Batch.Seconds() + costs.ZoneServer.Batch.Seconds()
	return time.Duration(seconds * float64(time.Second))
}

// demand is the arithmetic of a plan.
func (p *plan) demand(costs sim.Costs) {
	batches := p.perSecond / p.batch
	parts, named := batches*p.parts, p.perSecond*float64(p.buckets)
	of := func(c sim.Cost) float64 {
		return batches*c.Batch.Seconds() + parts*c.Part.Seconds() + named*c.Bucket.Seconds() + p.perSecond*c.Check.Seconds()
	}
	p.need = need{
		service: of(costs.Service), gate: of(costs.Gate), tablet: of(costs.Tablet), server: of(costs.Server),
		zoneTablet: of(costs.ZoneTablet), zoneServer: of(costs.ZoneServer),
		batches: batches, commits: parts / float64(p.shards), written: named * (txnBytes + logBytes),
		kept: named * txnBytes * keptDays * 86_400, blocks: named / cache,
	}
	p.need.fsyncs = p.need.commits * fsyncs
}

// hot is how many checks a second one bucket can be asked for: a batch holds its lock from the lock
// statement to the COMMIT, and batch checks of it share that.
func hot(batch float64, costs sim.Costs, fsync time.Duration) float64 {
	p := plan{batch: batch, buckets: 1, parts: 1, shards: 1}
	// The lock is taken after the first call and is free before the last way back.
	holds := p.length(costs, fsync) - 6*way - (costs.Service.Batch+costs.Service.Bucket)/2 - costs.Server.Part/4
	return batch / holds.Seconds()
}

// reports is the cores of all shards' vttablets and mysqlds together that are taken if each check is
// followed by a report by its txn id, in calls of some reports: a call asks every shard once.
func reports(p plan, perCall float64, costs sim.Costs) float64 {
	perShard := (costs.Tablet.Part + costs.Server.Part).Seconds() / 4 // one of the four calls of a batch's part
	return p.perSecond / perCall * float64(p.shards) * perShard
}

// writePlans writes the plans as a table.
func writePlans(b *strings.Builder, plans []plan) {
	row := func(what string, f func(plan) string) {
		fmt.Fprintf(b, "| %s |", what)
		for _, p := range plans {
			text := "none"
			if p.exists() || what == "" {
				text = f(p)
			}
			fmt.Fprintf(b, " %s |", text)
		}
		b.WriteString("\n")
	}
	row("", func(p plan) string { return grouped(p.perSecond) + "/s" })
	fmt.Fprintf(b, "|---|%s\n", strings.Repeat("---|", len(plans)))
	row("shards, of "+fmt.Sprint(cores)+" cores each", func(p plan) string { return grouped(float64(p.shards)) })
	row("instances of velocityd, of the same", func(p plan) string { return grouped(float64(p.instances)) })
	row("vtgates, of the same", func(p plan) string { return grouped(float64(p.gates)) })
	row("checks in a batch", func(p plan) string { return fmt.Sprintf("%.1f", p.batch) })
	row("shards that a batch touches", func(p plan) string { return fmt.Sprintf("%.1f", p.parts) })
	row("a batch takes", func(p plan) string { return fmt.Sprintf("%.1f ms", p.takes.Seconds()*1e3) })
	for _, k := range []struct {
		what string
		of   func(need) float64
	}{
		{"velocityd", func(n need) float64 { return n.service }},
		{"vtgates", func(n need) float64 { return n.gate }},
		{"vttablets", func(n need) float64 { return n.tablet }},
		{"mysqlds", func(n need) float64 { return n.server }},
		{"the unsharded vttablet", func(n need) float64 { return n.zoneTablet }},
		{"the unsharded mysqld", func(n need) float64 { return n.zoneServer }},
	} {
		row("cores: "+k.what, func(p plan) string { return fmt.Sprintf("%.1f", k.of(p.need)/busy) })
	}
	row("commits a second, each shard", func(p plan) string { return grouped(p.need.commits) })
	row("fsyncs a second, each shard, at most", func(p plan) string { return grouped(p.need.fsyncs) })
	row("MB written a second, each shard", func(p plan) string {
		return fmt.Sprintf("%.1f", p.need.written/1e6/float64(p.shards))
	})
	row(fmt.Sprintf("TB of history, %d days, each shard", keptDays), func(p plan) string {
		return fmt.Sprintf("%.1f", p.need.kept/1e12/float64(p.shards))
	})
	row("TB of history in all", func(p plan) string { return grouped(p.need.kept / 1e12) })
	row("blocks of ids a second", func(p plan) string { return grouped(p.need.blocks) })
	b.WriteString("\n")
}

// grouped writes a number with commas, three digits each.
func grouped(f float64) string {
	text := fmt.Sprintf("%.0f", f)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
