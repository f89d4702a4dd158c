package sim

import (
	"cmp"
	"slices"
	"time"
)

// Result is what a simulation found, in the time that was counted.
type Result struct {
	PerSecond float64 // checks that were decided, without the flood
	Asked     float64 // a second, without the flood
	Refused   float64 // a second, without the flood, for want of room
	Flood     float64 // checks of the flood that were decided, a second
	P50, P99  time.Duration
	Batch     float64 // checks in a batch
	Parts     float64 // shards that a batch touches
	Group     float64 // commits that share their fsyncs
	Held      float64 // share of a batch's checks that find a bucket held
	Batches   float64 // a second
	Blocks    float64 // of ids, a second
	// CPU is the processor time of a check by the kind of process.
	CPU map[string]time.Duration
	// Uses are the resources, the most used first.
	Uses []Use
	// Whole counts all checks since the simulation began.
	Whole struct{ Asked, Answered, Refused, Inside int }
}

// Use is how much of a kind of resource was used: on average, and of the one that was used most. 1
// is all of it.
type Use struct {
	Kind       string
	Mean, Most float64
}

// full is how much of a resource must be used before it is said to be a bound.
const full = 0.85

// Bound names what bounds the throughput, or returns "" if nothing is used up.
func (r Result) Bound() string {
	if len(r.Uses) == 0 || r.Uses[0].Most < full {
		return ""
	}
	return r.Uses[0].Kind
}

// Use returns how much of a kind of resource was used.
func (r Result) Use(kind string) Use {
	for _, u := range r.Uses {
		if u.Kind == kind {
			return u
		}
	}
	return Use{Kind: kind}
}

func (cl *cluster) result() Result {
	seconds, t := cl.config.Length.Seconds(), cl.traffic
	answered := float64(t.main.answered + t.others.answered)
	r := Result{
		PerSecond: float64(t.main.answered) / seconds, Asked: float64(t.main.asked) / seconds, Refused: float64(t.main.refused) / seconds,
		Flood: float64(t.others.answered) / seconds,
		P50:   t.times.Quantile(0.5), P99: t.times.Quantile(0.99),
		Batch: share(cl.counts.batched, cl.counts.batches), Parts: share(cl.counts.parts, cl.counts.batches),
		Held: share(cl.counts.held, cl.counts.batched), Batches: float64(cl.counts.batches) / seconds,
		Group: cl.group(), CPU: map[string]time.Duration{},
	}
	if cl.ids != nil {
		r.Blocks = float64(cl.ids.blocks) / seconds
	}
	for _, m := range cl.machines {
		for _, p := range m.processes {
			r.CPU[p.kind] += time.Duration(float64(p.used) / max(answered, 1))
		}
	}
	r.Uses = cl.uses()
	r.Whole.Asked, r.Whole.Answered, r.Whole.Refused = t.whole.asked, t.whole.answered, t.whole.refused
	r.Whole.Inside = t.whole.asked - t.whole.answered - t.whole.refused
	return r
}

// group returns how many commits of batches shared a group.
func (cl *cluster) group() float64 {
	groups := 0
	for _, s := range cl.shards {
		groups += s.groups
	}
	return share(cl.counts.parts, groups)
}

func share(a, b int) float64 { return float64(a) / max(float64(b), 1) }

// uses returns how much of each kind of resource was used.
func (cl *cluster) uses() []Use {
	byKind := map[string][]float64{}
	seconds := cl.config.Length.Seconds()
	add := func(kind string, used time.Duration, capacity int) {
		byKind[kind] = append(byKind[kind], used.Seconds()/seconds/float64(max(capacity, 1)))
	}
	for _, m := range cl.machines {
		kind, used := "all cores", time.Duration(0)
		for _, p := range m.processes {
			used += p.used
			if m != cl.shared {
				kind = p.kind
			}
		}
		add(kind, used, m.cores)
	}
	for _, d := range cl.disks {
		add(d.name, d.used-max(d.free-cl.clock.now, 0), 1)
	}
	for _, l := range cl.lanes() {
		busy := l.busy
		for _, began := range l.begun {
			busy += cl.clock.now - began
		}
		add("lanes", busy, l.calls)
	}
	add("the hottest bucket's lock", cl.lockTime(), 1)
	if cl.ids != nil {
		add("the sequence", cl.ids.used, 1)
	}
	return summed(byKind)
}

// lockTime returns for how long the watched bucket was locked.
func (cl *cluster) lockTime() time.Duration {
	held := cl.watchedFor
	if l := cl.shards[cl.watched.shard(len(cl.shards))].locks[cl.watched]; l != nil {
		held += cl.clock.now - max(l.since, cl.counting)
	}
	return held
}

func summed(byKind map[string][]float64) (uses []Use) {
	for kind, values := range byKind {
		u := Use{Kind: kind, Most: slices.Max(values)}
		for _, v := range values {
			u.Mean += v / float64(len(values))
		}
		uses = append(uses, u)
	}
	slices.SortFunc(uses, func(a, b Use) int { return cmp.Or(cmp.Compare(b.Most, a.Most), cmp.Compare(a.Kind, b.Kind)) })
	return uses
}
