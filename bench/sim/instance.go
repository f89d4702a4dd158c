package sim

import "slices"

// instance is one velocityd.
type instance struct {
	*cluster
	process *process
	lanes   [][]*lane // those of each shard, if lanes are by shard, and those for all other checks
	held    *lane
	// pending is how many checks of a bucket are in the lanes, and to which lane the first went.
	pending map[bucket]place
	gate    *process
}

type place struct {
	checks int
	lane   *lane
}

func newInstance(cl *cluster, no int) *instance {
	in := &instance{cluster: cl, process: cl.start("velocityd", cl.config.Service.Cores), pending: map[bucket]place{}}
	if n := cl.config.Shards; cl.config.Lanes.ByShard && n > 1 {
		for range n {
			in.addLanes(max(cl.config.Lanes.Count/n, 1))
		}
	}
	in.addLanes(cl.config.Lanes.Count)
	in.held = newLane(in, cl.config.Lanes, cl.config.Lanes.Held, true)
	if len(cl.gates) > 0 {
		in.gate = cl.gates[no%len(cl.gates)]
	}
	return in
}

// addLanes adds a group of lanes for lone checks.
func (in *instance) addLanes(n int) {
	group := make([]*lane, n)
	for i := range group {
		group[i] = newLane(in, in.config.Lanes, 1, false)
	}
	in.lanes = append(in.lanes, group)
}

// group returns the lanes of a check: those of the shard on which all its buckets lie, or the last.
func (in *instance) group(c *check) []*lane {
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
		c.lane = in.route(c)
		for _, b := range c.buckets {
			at := in.pending[b]
			if at.checks == 0 {
				at.lane = c.lane
			}
			at.checks++
			in.pending[b] = at
		}
		in.queue(c, c.lane)
	})
}

// enough is service's: how many checks must wait in a lane before further checks go to the next.
const enough = 40

// route chooses the lane of a check: that of the bucket that most checks in the lanes have in common
// with it or else the first lane in which fewer than enough wait.
func (in *instance) route(c *check) *lane {
	group := in.group(c)
	if len(group) == 1 {
		return group[0]
	}
	var most place
	for _, b := range c.buckets {
		if at := in.pending[b]; at.checks > most.checks && slices.Contains(group, at.lane) {
			most = at
		}
	}
	if most.checks > 0 {
		return most.lane
	}
	emptiest := group[0]
	for _, l := range group {
		if len(l.queue) < enough {
			return l
		}
		if len(l.queue) < len(emptiest.queue) {
			emptiest = l
		}
	}
	return emptiest
}

func (in *instance) unroute(c *check) {
	for _, b := range c.buckets {
		at := in.pending[b]
		if at.checks--; at.checks == 0 {
			delete(in.pending, b)
			continue
		}
		in.pending[b] = at
	}
}

// queue puts a check into a lane, or refuses it.
func (in *instance) queue(c *check, l *lane) {
	if l.join(c) {
		return
	}
	if l != in.held {
		in.unroute(c)
	}
	in.answer(c, false)
}

// loneTries is service's: how often a check is asked in its lane before it waits for held buckets.
const loneTries = 2

// retry asks again for a check of a held bucket.
func (in *instance) retry(c *check) {
	if c.tries++; c.tries < loneTries {
		in.queue(c, c.lane)
		return
	}
	in.unroute(c)
	in.queue(c, in.held)
}

// answer does the work of an answer and lets the caller know. A refused check costs as much.
func (in *instance) answer(c *check, decided bool) {
	in.compute(in.process, in.config.Costs.Service.Check/2, func() {
		in.clock.after(in.config.Network.Client, func() { in.traffic.answered(c, decided) })
	})
}
