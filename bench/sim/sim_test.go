package sim

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

const us = time.Microsecond

// small is a cluster of two shards with a vtgate, each process on two cores of its own.
func small() Config {
	return Config{
		Seed: 1, Warmup: 200 * time.Millisecond, Length: time.Second,
		Service: Group{2, 2}, Gate: Group{1, 2}, Tablet: Group{Cores: 2}, Server: Group{Cores: 2}, Shards: 2,
		Lanes:   Lanes{Count: 1, ByShard: true, Held: 4, Batch: 500, Queue: 4096, PerBucket: 1024},
		Network: Network{Client: 100 * us, Gate: 100 * us, Tablet: 100 * us},
		Costs: Costs{
			Service: Cost{Batch: 100 * us, Bucket: 3 * us, Check: 50 * us}, Gate: Cost{Batch: 50 * us, Part: 200 * us, Bucket: 5 * us},
			Tablet: Cost{Part: 100 * us, Bucket: 3 * us}, Server: Cost{Part: 200 * us, Bucket: 35 * us},
			ZoneTablet: Cost{Batch: 50 * us}, ZoneServer: Cost{Batch: 50 * us},
		},
		Fsync: 150 * us, Fsyncs: 2, Cache: 1000,
		Traffic: Traffic{Callers: 64, Buckets: 1, Users: Keys{Count: 100_000}},
	}
}

func run(t *testing.T, c Config) Result {
	t.Helper()
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOneSeedGivesOneResult(t *testing.T) {
	t.Parallel()
	c := small()
	c.Traffic = Traffic{PerSecond: 5000, Buckets: 2, Users: Keys{10_000, 0.9}, Addresses: Keys{1000, 1.1}, Flood: 2000}
	one, same := run(t, c), run(t, c)
	if !reflect.DeepEqual(one, same) {
		t.Errorf("two runs of one seed differ:\n%+v\n%+v", one, same)
	}
	c.Seed++
	if other := run(t, c); reflect.DeepEqual(one, other) {
		t.Error("another seed gives the very same result")
	}
}

// variants are clusters that differ in how checks can fare in them.
func variants() map[string]Config {
	all := map[string]Config{"callers": small()}
	c := small()
	c.Traffic.Buckets, c.Traffic.Addresses = 2, Keys{1000, 1.2}
	all["pairs, hot addresses"] = c
	c = small()
	c.Traffic.Users = Keys{Count: 1}
	c.Traffic.Callers = 512
	all["one bucket"] = c
	c = small()
	c.Traffic = Traffic{PerSecond: 3000, Buckets: 1, Users: Keys{10_000, 1}, Flood: 50_000}
	c.Lanes.Queue, c.Lanes.PerBucket = 200, 50
	all["a flood and short queues"] = c
	c = small()
	c.Gate, c.Shards, c.Lanes = Group{}, 1, DefaultLanes(2)
	all["one MySQL"] = c
	c.Machine = 2
	all["one MySQL, two cores for everything"] = c
	c = small()
	c.Cache = 1
	c.Traffic.Sticky = 1
	all["a sequence without a cache"] = c
	return all
}

func TestEveryCheckIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	for name, c := range variants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl := newCluster(c)
			cl.traffic.begin()
			cl.clock.run(c.Warmup + c.Length + time.Minute) // nobody asks in the last minute
			w := cl.traffic.whole
			if w.asked == 0 || w.asked != w.answered+w.refused || w.answered == 0 {
				t.Errorf("%d asked, %d answered, %d refused", w.asked, w.answered, w.refused)
			}
			for _, s := range cl.allShards() {
				if len(s.locks) > 0 {
					t.Errorf("%d locks are left", len(s.locks))
				}
			}
			for _, in := range cl.instances {
				for _, l := range append(in.lanes, in.held) {
					if len(l.queue) > 0 || len(l.claimed) > 0 || len(l.waiting) > 0 || l.free != 0 || l.batched != 0 {
						t.Errorf("checks are left in a lane: %d, %d, %d, %d, %d", len(l.queue), len(l.claimed), len(l.waiting), l.free, l.batched)
					}
				}
			}
		})
	}
}

func TestMoreIsNotAnsweredThanIsAskedNorUsedThanThereIs(t *testing.T) {
	t.Parallel()
	for name, c := range variants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, c)
			for _, u := range r.Uses {
				if u.Most > 1.001 || u.Mean > u.Most+1e-9 || u.Mean < 0 {
					t.Errorf("%s is used %.4f, at most %.4f", u.Kind, u.Mean, u.Most)
				}
			}
			// Little's law, for a closed loop without refusals; the mean is near the median here.
			if n := float64(c.Traffic.Callers); n > 0 && r.Refused == 0 {
				if inside := r.PerSecond * r.P50.Seconds(); inside < 0.4*n || inside > 1.5*n {
					t.Errorf("%.0f checks/s of %v are %.0f at once, of %.0f callers", r.PerSecond, r.P50, inside, n)
				}
			}
			if c.Traffic.PerSecond > 0 && math.Abs(r.Asked/c.Traffic.PerSecond-1) > 0.1 {
				t.Errorf("%.0f checks/s were asked, not %.0f", r.Asked, c.Traffic.PerSecond)
			}
		})
	}
}

func TestAFullCoreIsNamedAsTheBound(t *testing.T) {
	t.Parallel()
	c := small()
	c.Traffic.Callers, c.Server.Cores = 2048, 1
	c.Service.Count = 8
	r := run(t, c)
	if r.Bound() != "mysqld" {
		t.Errorf("bound by %q: %+v", r.Bound(), r.Uses)
	}
	// 2 shards of one core each; a check costs at least 35 µs.
	if most := 2 / 35e-6; r.PerSecond > most || r.PerSecond < most/2 {
		t.Errorf("%.0f checks/s, at most %.0f can be", r.PerSecond, most)
	}
	c.Traffic.Callers = 1
	if r := run(t, c); r.Bound() != "" {
		t.Errorf("a lone caller is bound by %q", r.Bound())
	}
}

func TestALoneCheckTakesTheSumOfItsSteps(t *testing.T) {
	t.Parallel()
	c := small()
	c.Gate, c.Shards, c.Lanes = Group{}, 1, DefaultLanes(1)
	c.Traffic.Callers = 1
	k := c.Costs
	want := 2*c.Network.Client + 4*c.Network.Gate + k.Service.Check + k.Service.Batch + k.Service.Bucket +
		k.Server.Part + k.Server.Bucket + 2*c.Fsync
	if r := run(t, c); math.Abs(r.P50.Seconds()/want.Seconds()-1) > 0.02 {
		t.Errorf("a check takes %v, its steps %v", r.P50, want)
	}
	// With a vtgate there are six calls of vttablets besides, four of them of the shard's.
	c.Gate, c.Cache = Group{1, 2}, 1_000_000
	want += k.Gate.Batch + k.Gate.Part + k.Gate.Bucket + k.Tablet.Part + k.Tablet.Bucket + k.ZoneTablet.Batch + k.ZoneServer.Batch +
		12*c.Network.Tablet
	if r := run(t, c); math.Abs(r.P50.Seconds()/want.Seconds()-1) > 0.02 {
		t.Errorf("through a vtgate a check takes %v, its steps %v", r.P50, want)
	}
}

func TestTwiceTheShardsDecideTwiceAsManyWhereShardsAreTheBound(t *testing.T) {
	t.Parallel()
	perSecond := func(shards int) float64 {
		c := small()
		c.Shards, c.Server.Cores = shards, 1
		c.Service.Count, c.Gate = 4*shards, Group{4 * shards, 4}
		c.Lanes.ByShard, c.Traffic.Sticky = true, 4
		c.Traffic.Callers = 0
		c.Traffic.PerSecond = 30_000 * float64(shards) // more than they can
		c.Length = 500 * time.Millisecond
		return run(t, c).PerSecond
	}
	one, four := perSecond(1), perSecond(4)
	if got := four / one; got < 3.5 || got > 4.5 {
		t.Errorf("four shards decide %.2f times what one does: %.0f and %.0f", got, four, one)
	}
}

func TestABucketIsInOneBatchAtATime(t *testing.T) {
	t.Parallel()
	c := small()
	c.Traffic.Users, c.Traffic.Callers, c.Service.Count = Keys{Count: 1}, 512, 4
	r := run(t, c)
	if r.Held == 0 {
		t.Error("four instances never met at one bucket")
	}
	if u := r.Use("the hottest bucket's lock"); u.Most < 0.5 || u.Most > 1 {
		t.Errorf("the lock was held for %.3f of the time", u.Most)
	}
}

func TestAFloodTakesNoMoreOfABatchThanItsShare(t *testing.T) {
	t.Parallel()
	c := small()
	c.Service.Count, c.Traffic = 1, Traffic{PerSecond: 3000, Buckets: 1, Users: Keys{Count: 100_000}}
	calm := run(t, c)
	c.Traffic.Flood = 20_000
	flooded := run(t, c)
	if flooded.PerSecond < 0.95*calm.PerSecond || flooded.Refused > 0 {
		t.Errorf("others had %.0f checks/s, and %.0f beside a flood, %.0f refused", calm.PerSecond, flooded.PerSecond, flooded.Refused)
	}
}

func TestKeysAreDrawnByTheLawOfZipf(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	for _, k := range []Keys{{1000, 0}, {1000, 0.8}, {1000, 1}, {1000, 1.3}} {
		const draws = 200_000
		seen := make([]float64, k.Count)
		for range draws {
			seen[k.draw(random)]++
		}
		if got, want := seen[0]/draws, k.First(); math.Abs(got-want) > 0.05*want+0.0005 {
			t.Errorf("%+v: the first key has %.4f, not %.4f", k, got, want)
		}
		// The 100th against the 10th, both with their neighbours.
		var tenth, hundredth float64
		for i := -2; i <= 2; i++ {
			tenth, hundredth = tenth+seen[9+i], hundredth+seen[99+i]
		}
		if got, want := hundredth/tenth, math.Pow(10, -k.Exponent); math.Abs(got/want-1) > 0.2 {
			t.Errorf("%+v: the 100th key has %.3f of the 10th's draws, not %.3f", k, got, want)
		}
	}
}

func TestABlockOfIdsIsFetchedOnceForAsManyTxns(t *testing.T) {
	t.Parallel()
	c := small()
	c.Traffic.Buckets, c.Traffic.Addresses = 2, Keys{Count: 100_000}
	for _, cache := range []int{50, 1000} {
		c.Cache = cache
		r := run(t, c)
		want := 2 * r.PerSecond / float64(cache)
		if cache > int(2*r.Batch) && math.Abs(r.Blocks/want-1) > 0.2 {
			t.Errorf("cache %d: %.1f blocks a second, not %.1f", cache, r.Blocks, want)
		}
	}
}

func TestWhatCannotBeSimulatedIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"no instance":       func(c *Config) { c.Service.Count = 0 },
		"no shard":          func(c *Config) { c.Shards = 0 },
		"shards, no vtgate": func(c *Config) { c.Gate.Count = 0 },
		"no cores":          func(c *Config) { c.Server.Cores = 0 },
		"no vttablet cores": func(c *Config) { c.Tablet.Cores = 0 },
		"no cache":          func(c *Config) { c.Cache = 0 },
		"no traffic":        func(c *Config) { c.Traffic.Callers = 0 },
		"two traffics":      func(c *Config) { c.Traffic.PerSecond = 1 },
		"no keys":           func(c *Config) { c.Traffic.Users.Count = 0 },
		"no second keys":    func(c *Config) { c.Traffic.Buckets = 2 },
		"no time":           func(c *Config) { c.Length = 0 },
	} {
		c := small()
		change(&c)
		if _, err := Run(c); err == nil {
			t.Errorf("%s: it runs", name)
		}
	}
}
