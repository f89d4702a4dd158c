package sim

import (
	"errors"
	"time"
)

// Config describes a cluster and what is asked of it.
type Config struct {
	Seed uint64
	// Warmup is simulated first and not counted; Length is what is counted.
	Warmup, Length time.Duration

	// Machine is how many cores all processes share, the load generator too; then all servers also
	// share one disk. 0 means that each process has a machine of its own, and the load costs nothing.
	Machine int
	Service Group // instances of velocityd
	Gate    Group // vtgates; with none, instances speak to the one shard's mysqld
	Tablet  Group // vttablets: Cores of each; there is one a shard, and one of the unsharded keyspace
	Server  Group // mysqlds: the same
	Shards  int

	Lanes   Lanes
	Network Network
	Costs   Costs
	// Aside is the share of all processor time in which nobody waits for what is computed: the
	// collection of garbage, the writing of pages.
	Aside float64
	// Vary says how much times of processors and disks differ from one to the next: their standard
	// deviation against their mean, as a gamma distribution has it. 0 means not at all.
	Vary float64
	// Fsync is how long the disk takes for one, Fsyncs how many a group of commits needs.
	Fsync  time.Duration
	Fsyncs int
	// Cache is how many ids of the sequence a vttablet takes at once. Each time costs a commit.
	Cache   int
	Traffic Traffic
}

// Group is processes of one kind.
type Group struct {
	Count int
	Cores int // of each
}

// Lanes are the settings of an instance's coalescer. Its defaults are DefaultLanes.
type Lanes struct {
	// Count is how many batches of lone checks may be under way. With ByShard and several shards
	// these are those of checks over several shards, and each shard has a lane of its own with
	// Count divided by the shards, at least one.
	Count     int
	ByShard   bool
	Held      int // batches for held buckets
	Batch     int // checks in one
	Queue     int // callers in a lane
	PerBucket int // of those, of one bucket
}

// DefaultLanes returns the settings of velocityd on machines with so many cores.
func DefaultLanes(cores int) Lanes {
	return Lanes{Count: cores, Held: 4, Batch: 500, Queue: 16_384, PerBucket: 1024}
}

// Network is how long a message takes on each way, one way.
type Network struct{ Client, Gate, Tablet time.Duration }

// Cost is the processor time that a process takes.
type Cost struct {
	Batch  time.Duration `json:"batch"`  // for a batch, whatever it holds
	Part   time.Duration `json:"part"`   // for each shard that a batch touches
	Bucket time.Duration `json:"bucket"` // for each bucket of its checks
	Check  time.Duration `json:"check"`  // for each check
}

// Costs are those of each kind of process.
type Costs struct {
	Load    Cost
	Service Cost
	Gate    Cost
	Tablet  Cost // of shards
	Server  Cost // of shards
	// The unsharded keyspace has one of each. Zones are read and ids are taken there.
	ZoneTablet Cost
	ZoneServer Cost
}

// Traffic is who asks, and for what.
type Traffic struct {
	// Callers ask in a closed loop. With none, PerSecond checks come at random instants, whether
	// or not earlier ones are answered.
	Callers   int
	PerSecond float64
	// Buckets is how many a check names, one or two: a user and an address.
	Users, Addresses Keys
	Buckets          int
	// Shared is the share of the checks of two buckets whose second one is one and the same.
	Shared float64
	// Flood is how many checks a second, at random instants, name one further user besides; their
	// second bucket is one further address.
	Flood float64
	// Sticky is how many instances may be asked for the keys of one shard; 0 means all. It is what
	// a balancer does that sends a key to the same few instances.
	Sticky int
}

// Keys are the names of one zone's buckets. The key of rank r is drawn in proportion to
// 1/r^Exponent; an Exponent of 0 draws all alike.
type Keys struct {
	Count    int
	Exponent float64
}

func (c Config) validate() error {
	switch {
	case c.Service.Count < 1 || c.Shards < 1 || c.Lanes.Count < 1 || c.Lanes.Batch < 1 || c.Lanes.Held < 1:
		return errors.New("there must be an instance, a shard, a lane for lone checks and one for held buckets")
	case c.Gate.Count == 0 && c.Shards > 1:
		return errors.New("several shards need a vtgate")
	case c.Machine == 0 && min(c.Service.Cores, c.Server.Cores) < 1:
		return errors.New("each process needs a core")
	case c.Machine == 0 && c.Gate.Count > 0 && min(c.Gate.Cores, c.Tablet.Cores) < 1:
		return errors.New("each vtgate and vttablet needs a core")
	case c.Gate.Count > 0 && c.Cache < 1:
		return errors.New("the sequence needs a cache of at least one id")
	case (c.Traffic.Callers > 0) == (c.Traffic.PerSecond > 0):
		return errors.New("traffic is either callers or checks a second")
	case c.Traffic.Buckets < 1 || c.Traffic.Buckets > 2 || c.Traffic.Users.Count < 1 || c.Traffic.Buckets == 2 && c.Traffic.Addresses.Count < 1:
		return errors.New("a check needs one or two buckets to draw")
	case c.Length <= 0:
		return errors.New("a run must have a length")
	}
	return nil
}
