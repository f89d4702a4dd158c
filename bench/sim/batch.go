package sim

import (
	"cmp"
	"slices"
	"time"
)

// Parts of a mysqld's work for a bucket: to lock its row, to read its window, and to insert. They
// are those of docs/decisions/0045.
const (
	lockPart  = 0.26
	readPart  = 0.37
	writePart = 0.37
)

// calls is how many calls a batch makes of each shard that it touches: lock, read, insert, commit.
const calls = 4

// batch is the checks that share a transaction. It locks shard by shard in one order, reads the
// zones and, shard by shard, all windows, lets the instance decide, takes ids, inserts on all shards
// at once, and commits shard by shard.
// Without vtgates there are no zones and ids to ask for apart.
type batch struct {
	*instance
	lane   *lane
	checks []*check
	parts  []*part
	taken  map[bucket]bool // by other batches
	empty  bool            // nothing is left to record
}

// part is what a batch does on one shard.
type part struct {
	shard   *shard
	buckets []bucket // each once, in order
	locked  []bucket
	txns    int // to insert
}

func (in *instance) startBatch(l *lane, checks []*check) *batch {
	b := &batch{instance: in, lane: l, checks: checks}
	byShard := map[*shard]*part{}
	for _, c := range checks {
		for _, key := range c.buckets {
			s := in.shards[key.shard(len(in.shards))]
			p := byShard[s]
			if p == nil {
				p = &part{shard: s}
				byShard[s], b.parts = p, append(b.parts, p)
			}
			p.buckets = append(p.buckets, key)
			p.txns++
		}
	}
	for _, p := range b.parts {
		slices.Sort(p.buckets)
		p.buckets = slices.Compact(p.buckets)
	}
	slices.SortFunc(b.parts, func(a, b *part) int { return cmp.Compare(a.shard.no, b.shard.no) })
	in.counts.batches++
	in.counts.batched += len(checks)
	in.counts.parts += len(b.parts)
	b.start()
	return b
}

func (b *batch) txns() (n int) {
	for _, p := range b.parts {
		n += p.txns
	}
	return n
}

// start sends the first packet.
func (b *batch) start() {
	own := b.config.Costs.Service
	b.compute(b.process, own.Batch/2+times(own.Bucket, b.txns())/2, func() {
		b.clock.after(b.config.Network.Gate, func() { b.lock(0) })
	})
}

// lock locks the buckets of the parts from the i-th on.
func (b *batch) lock(i int) {
	if i == len(b.parts) {
		b.readZones()
		return
	}
	b.call(b.parts[i:i+1], work{distinct: lockPart}, b.lockPart, func() { b.lock(i + 1) })
}

// lockPart locks the buckets of one part. The lane for held buckets waits for them, others do not.
func (b *batch) lockPart(p *part, then func()) {
	if b.lane.waits {
		b.await(p, then)
		return
	}
	for _, key := range p.buckets {
		if p.shard.try(key) {
			p.locked = append(p.locked, key)
			continue
		}
		if b.taken == nil {
			b.taken = map[bucket]bool{}
		}
		b.taken[key] = true
	}
	then()
}

func (b *batch) await(p *part, then func()) {
	if len(p.locked) == len(p.buckets) {
		then()
		return
	}
	key := p.buckets[len(p.locked)]
	p.shard.await(key, func() {
		p.locked = append(p.locked, key)
		b.await(p, then)
	})
}

// readZones asks the unsharded keyspace for the zones and the clock.
func (b *batch) readZones() {
	b.unsharded(b.config.Costs.ZoneServer.Batch, func(then func()) { then() }, func() { b.readWindows(0) })
}

// readWindows reads the windows of the parts from the i-th on, by a statement each.
func (b *batch) readWindows(i int) {
	if i == len(b.parts) {
		b.decide()
		return
	}
	b.call(b.parts[i:i+1], work{distinct: readPart}, nothing, func() { b.readWindows(i + 1) })
}

// decide brings what was read to the instance, which sends the second packet.
func (b *batch) decide() {
	own := b.config.Costs.Service
	b.empty = !slices.ContainsFunc(b.checks, b.isFree)
	b.clock.after(b.config.Network.Gate, func() {
		b.compute(b.process, own.Batch-own.Batch/2+times(own.Bucket, b.txns())/2, func() {
			b.clock.after(b.config.Network.Gate, b.record)
		})
	})
}

// isFree says that no other batch held a bucket of the check.
func (b *batch) isFree(c *check) bool {
	return !slices.ContainsFunc(c.buckets, func(key bucket) bool { return b.taken[key] })
}

func (b *batch) record() {
	if b.empty {
		b.commit(0)
		return
	}
	ids := b.txns()
	b.unsharded(0, func(then func()) { b.ids.take(ids, then) }, func() {
		b.call(b.parts, work{each: writePart}, nothing, func() { b.commit(0) })
	})
}

// commit commits the parts from the i-th on, one after the other, as MULTI mode does.
func (b *batch) commit(i int) {
	if i == len(b.parts) {
		b.clock.after(b.config.Network.Gate, b.end)
		return
	}
	b.call(b.parts[i:i+1], work{}, b.commitPart, func() { b.commit(i + 1) })
}

func (b *batch) commitPart(p *part, then func()) {
	free := func() {
		for _, key := range p.locked {
			p.shard.free(key)
		}
		then()
	}
	if b.empty {
		free()
		return
	}
	p.shard.commit(free)
}

// end answers the checks, and asks those of held buckets again.
func (b *batch) end() {
	b.lane.ended(b)
	for _, c := range b.checks {
		if b.isFree(c) {
			b.answer(c, true)
			continue
		}
		b.counts.held++
		b.retry(c)
	}
}

func nothing(_ *part, then func()) { then() }

// work is the part of the work for buckets that a call does: for each of them once, and for each txn.
type work struct{ distinct, each float64 }

// call asks the shards of some parts at once, and continues when all have answered. effect is what
// happens on a shard after its mysqld has computed.
func (b *batch) call(parts []*part, w work, effect func(*part, func()), then func()) {
	left := len(parts)
	answered := func() {
		if left--; left == 0 {
			then()
		}
	}
	if b.gate == nil {
		for _, p := range parts {
			b.ask(p, w, func() { effect(p, answered) })
		}
		return
	}
	var routing time.Duration
	for _, p := range parts {
		routing += b.config.Costs.Gate.Part/calls + w.of(b.config.Costs.Gate.Bucket, p)
	}
	b.compute(b.gate, routing, func() {
		for _, p := range parts {
			b.overTheNetwork(func(back func()) {
				b.compute(p.shard.tablet, b.config.Costs.Tablet.Part/calls+w.of(b.config.Costs.Tablet.Bucket, p), func() {
					b.ask(p, w, func() { effect(p, back) })
				})
			}, answered)
		}
	})
}

// ask lets the mysqld of a part compute for one call.
func (b *batch) ask(p *part, w work, then func()) {
	b.compute(p.shard.server, b.config.Costs.Server.Part/calls+w.of(b.config.Costs.Server.Bucket, p), then)
}

// of returns the time that a part takes, of what a bucket costs.
func (w work) of(bucket time.Duration, p *part) time.Duration {
	return time.Duration((w.distinct*float64(len(p.buckets)) + w.each*float64(p.txns)) * float64(bucket))
}

// unsharded asks the unsharded keyspace: half of a batch's work of the vtgate and of its vttablet.
func (b *batch) unsharded(server time.Duration, effect func(func()), then func()) {
	if b.gate == nil {
		then()
		return
	}
	b.compute(b.gate, b.config.Costs.Gate.Batch/2, func() {
		b.overTheNetwork(func(back func()) {
			b.compute(b.zones.tablet, b.config.Costs.ZoneTablet.Batch/2, func() {
				b.compute(b.zones.server, server, func() { effect(back) })
			})
		}, then)
	})
}

// overTheNetwork carries a message to a vttablet and its answer back.
func (b *batch) overTheNetwork(there func(back func()), then func()) {
	way := b.config.Network.Tablet
	b.clock.after(way, func() { there(func() { b.clock.after(way, then) }) })
}

func times(d time.Duration, n int) time.Duration { return d * time.Duration(n) }
