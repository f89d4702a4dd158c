package sim

import (
	"math/rand/v2"
	"time"
)

// cluster is all that is simulated.
type cluster struct {
	config    Config
	clock     *clock
	random    *rand.Rand
	machines  []*machine
	shared    *machine // nil if each process has its own
	disk      *disk    // nil if each mysqld has its own
	disks     []*disk
	instances []*instance
	gates     []*process
	shards    []*shard
	zones     *shard
	ids       *sequence
	traffic   *traffic
	counting  time.Duration // when counting began
	counts    counts
	// watched is the bucket of which most is expected, watchedFor how long its lock was held.
	watched    bucket
	watchedFor time.Duration
}

// counts are numbers since counting began.
type counts struct{ batches, batched, parts, held int }

// Run simulates a cluster.
func Run(config Config) (Result, error) {
	if err := config.validate(); err != nil {
		return Result{}, err
	}
	cl := newCluster(config)
	cl.traffic.begin()
	cl.clock.run(config.Warmup)
	cl.reset()
	cl.clock.run(config.Warmup + config.Length)
	return cl.result(), nil
}

func newCluster(config Config) *cluster {
	cl := &cluster{config: config, clock: &clock{}, random: rand.New(rand.NewPCG(config.Seed, 0))}
	if config.Machine > 0 {
		cl.shared = newMachine(cl.clock, config.Machine)
		cl.machines = append(cl.machines, cl.shared)
		cl.disk = &disk{clock: cl.clock, name: "disk"}
		cl.disks = append(cl.disks, cl.disk)
	}
	for range config.Gate.Count {
		cl.gates = append(cl.gates, cl.start("vtgate", config.Gate.Cores))
	}
	for i := range config.Shards {
		cl.shards = append(cl.shards, newShard(cl, i, ""))
	}
	if config.Gate.Count > 0 {
		cl.zones = newShard(cl, 0, "unsharded ")
		cl.ids = &sequence{zones: cl.zones}
	}
	cl.traffic = newTraffic(cl)
	for i := range config.Service.Count {
		cl.instances = append(cl.instances, newInstance(cl, i))
	}
	return cl
}

// start starts a process on the shared machine, or on one of its own.
func (cl *cluster) start(kind string, cores int) *process {
	m := cl.shared
	if m == nil {
		m = newMachine(cl.clock, cores)
		cl.machines = append(cl.machines, m)
	}
	return m.start(kind)
}

// compute lets a process work and continues with then. A part of the work is done aside.
func (cl *cluster) compute(p *process, work time.Duration, then func()) {
	work = cl.vary(work)
	if aside := time.Duration(cl.config.Aside * float64(work)); aside > 0 {
		p.do(aside, func() {})
		work -= aside
	}
	p.do(work, then)
}

// vary returns a time with the mean d.
func (cl *cluster) vary(d time.Duration) time.Duration {
	if cl.config.Vary == 0 {
		return d
	}
	// A sum of exponential times has a gamma distribution.
	terms := max(int(1/(cl.config.Vary*cl.config.Vary)+0.5), 1)
	sum := 0.0
	for range terms {
		sum += cl.random.ExpFloat64()
	}
	return time.Duration(sum / float64(terms) * float64(d))
}

// reset begins to count.
func (cl *cluster) reset() {
	cl.counting, cl.counts, cl.watchedFor = cl.clock.now, counts{}, 0
	for _, m := range cl.machines {
		for _, p := range m.processes {
			p.used = 0
		}
	}
	for _, d := range cl.disks {
		d.used = max(d.free-cl.clock.now, 0) // what it has yet to do
	}
	for _, s := range cl.allShards() {
		s.groups = 0
	}
	for _, l := range cl.lanes() {
		l.busy = 0
		for b := range l.begun {
			l.begun[b] = cl.clock.now
		}
	}
	if cl.ids != nil {
		cl.ids.used, cl.ids.blocks = 0, 0
	}
	cl.traffic.reset()
}

func (cl *cluster) allShards() []*shard {
	if cl.zones == nil {
		return cl.shards
	}
	return append(cl.shards[:len(cl.shards):len(cl.shards)], cl.zones)
}

// lanes returns the lanes for lone checks of all instances.
func (cl *cluster) lanes() (all []*lane) {
	for _, in := range cl.instances {
		all = append(all, in.lanes...)
	}
	return all
}
