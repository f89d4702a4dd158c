package sim

// instance is one velocityd.
type instance struct {
	*cluster
	process *process
	lanes   []*lane // one for each shard, if lanes are by shard, and one for all other checks
	held    *lane
	gate    *process
}

func newInstance(cl *cluster, no int) *instance {
	in := &instance{cluster: cl, process: cl.start("velocityd", cl.config.Service.Cores)}
	if n := cl.config.Shards; cl.config.Lanes.ByShard && n > 1 {
		for range n {
			in.lanes = append(in.lanes, newLane(cl.clock, in.startBatch, cl.config.Lanes, max(cl.config.Lanes.Count/n, 1), false))
		}
	}
	in.lanes = append(in.lanes, newLane(cl.clock, in.startBatch, cl.config.Lanes, cl.config.Lanes.Count, false))
	in.held = newLane(cl.clock, in.startBatch, cl.config.Lanes, cl.config.Lanes.Held, true)
	if len(cl.gates) > 0 {
		in.gate = cl.gates[no%len(cl.gates)]
	}
	return in
}

// laneOf returns the lane of a check: that of the shard on which all its buckets lie, or the last.
func (in *instance) laneOf(c *check) *lane {
	others := len(in.lanes) - 1
	if others == 0 {
		return in.lanes[0]
	}
	first := c.buckets[0].shard(others)
	for _, b := range c.buckets[1:] {
		if b.shard(others) != first {
			return in.lanes[others]
		}
	}
	return in.lanes[first]
}

// ask takes a check that has come over the network. Half of a check's own work is done before it
// is queued, half for its answer.
func (in *instance) ask(c *check) {
	in.compute(in.process, in.config.Costs.Service.Check/2, func() {
		c.lane = in.laneOf(c)
		in.queue(c, c.lane)
	})
}

// queue puts a check into a lane, or refuses it.
func (in *instance) queue(c *check, l *lane) {
	if !l.join(c) {
		in.answer(c, false)
	}
}

// loneTries is service's: how often a check is asked in its lane before it waits for held buckets.
const loneTries = 2

// retry asks again for a check of a held bucket.
func (in *instance) retry(c *check) {
	if c.tries++; c.tries < loneTries {
		in.queue(c, c.lane)
		return
	}
	in.queue(c, in.held)
}

// answer does the work of an answer and lets the caller know. A refused check costs as much.
func (in *instance) answer(c *check, decided bool) {
	in.compute(in.process, in.config.Costs.Service.Check/2, func() {
		in.clock.after(in.config.Network.Client, func() { in.traffic.answered(c, decided) })
	})
}
