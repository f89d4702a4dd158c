package sim

import (
	"time"

	"velocityd/bench/round"
)

// pause is how long a refused caller of a closed loop waits, as the benchmark's callers do.
const pause = 10 * time.Millisecond

// The ranks of buckets are even for users and odd for addresses. The flooded ones come after all.
func user(rank uint64) bucket    { return bucket(2 * rank) }
func address(rank uint64) bucket { return bucket(2*rank + 1) }

// traffic asks, and counts the answers. The flood is counted apart.
type traffic struct {
	*cluster
	load   *process // of a closed loop on a shared machine; nil: asking costs nothing
	spare  []*check // for use again
	whole  tally    // since the first event
	main   tally    // since counting began
	others tally    // the flood, since counting began
	times  *round.Histogram
	until  time.Duration // nobody asks afterwards
}

type tally struct{ asked, answered, refused int }

func newTraffic(cl *cluster) *traffic {
	t := &traffic{cluster: cl, times: &round.Histogram{}, until: cl.config.Warmup + cl.config.Length}
	if cl.shared != nil {
		t.load = cl.shared.start("load")
		t.load.threads = 1
	}
	switch k := cl.config.Traffic; {
	case k.Flood > 0:
		cl.watched = t.flooded()
	default:
		cl.watched = user(0)
		if k.Buckets == 2 && k.Addresses.First()+k.Shared > k.Users.First() {
			cl.watched = address(0)
		}
	}
	return t
}

func (t *traffic) flooded() bucket { return user(uint64(t.config.Traffic.Users.Count)) }

func (t *traffic) reset() {
	t.main, t.others, t.times = tally{}, tally{}, &round.Histogram{}
}

// begin starts all who ask.
func (t *traffic) begin() {
	k := t.config.Traffic
	for i := range k.Callers {
		// They begin within a millisecond, so that they are not in step.
		t.clock.after(time.Duration(t.random.Int64N(int64(time.Millisecond))), func() { t.ask(i, false) })
	}
	t.arrive(k.PerSecond, false)
	t.arrive(k.Flood, true)
}

// arrive lets checks come at random instants, so many a second.
func (t *traffic) arrive(perSecond float64, flood bool) {
	if perSecond <= 0 {
		return
	}
	gap := float64(time.Second) / perSecond
	var next func()
	next = func() {
		if t.clock.now > t.until {
			return
		}
		t.ask(-1, flood)
		t.clock.after(time.Duration(t.random.ExpFloat64()*gap), next)
	}
	t.clock.after(time.Duration(t.random.ExpFloat64()*gap), next)
}

// ask sends one check on its way.
func (t *traffic) ask(caller int, flood bool) {
	if t.clock.now > t.until {
		return
	}
	c := t.draw(caller, flood)
	t.whole.asked++
	t.of(c).asked++
	send := func() { t.clock.after(t.config.Network.Client, func() { c.instance.ask(c) }) }
	if t.load == nil {
		send()
		return
	}
	t.compute(t.load, t.config.Costs.Load.Check/2, send)
}

func (t *traffic) of(c *check) *tally {
	if c.flood {
		return &t.others
	}
	return &t.main
}

// draw makes a check.
func (t *traffic) draw(caller int, flood bool) *check {
	var c *check
	if last := len(t.spare) - 1; last >= 0 {
		c, t.spare = t.spare[last], t.spare[:last]
	} else {
		c = &check{buckets: make([]bucket, 0, 2)}
	}
	k := t.config.Traffic
	first, second := t.flooded(), address(uint64(k.Addresses.Count))
	if !flood {
		first = user(k.Users.draw(t.random))
	}
	c.buckets = append(c.buckets[:0], first)
	if k.Buckets == 2 {
		switch {
		case flood:
		case t.random.Float64() < k.Shared:
			second = address(0)
		default:
			second = address(k.Addresses.draw(t.random))
		}
		c.buckets = append(c.buckets, second)
	}
	c.caller, c.flood, c.asked, c.tries = caller, flood, t.clock.now, 0
	c.instance = t.choose(c)
	return c
}

// choose returns the instance that is asked: the caller's, any one, or one of those for the shard.
func (t *traffic) choose(c *check) *instance {
	n := len(t.instances)
	switch k := t.config.Traffic; {
	case k.Sticky > 0:
		return t.instances[(c.buckets[0].shard(t.config.Shards)*k.Sticky+t.random.IntN(k.Sticky))%n]
	case c.caller >= 0:
		return t.instances[c.caller%n]
	}
	return t.instances[t.random.IntN(n)]
}

// answered takes an answer, and lets the caller of a closed loop ask again.
func (t *traffic) answered(c *check, decided bool) {
	if t.load == nil {
		t.note(c, decided)
		return
	}
	t.compute(t.load, t.config.Costs.Load.Check/2, func() { t.note(c, decided) })
}

func (t *traffic) note(c *check, decided bool) {
	of, wait := t.of(c), time.Duration(0)
	if decided {
		t.whole.answered++
		of.answered++
		if !c.flood {
			t.times.Record(t.clock.now - c.asked)
		}
	} else {
		t.whole.refused++
		of.refused++
		wait = pause
	}
	caller := c.caller
	t.spare = append(t.spare, c)
	if caller >= 0 {
		t.clock.after(wait, func() { t.ask(caller, false) })
	}
}
