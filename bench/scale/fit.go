package main

import (
	"fmt"
	"math"
	"time"

	"velocityd/bench/round"
	"velocityd/bench/sim"
)

// fitted is the processor times of a batch, a shard's part of it, a bucket and a check, found from
// runs with batches of different lengths.
type fitted struct {
	costs sim.Costs
	from  []round.Run // that were used: those whose batches were counted
}

// terms are what a kind of process did for one check of a run: how many batches, parts of batches,
// buckets, and checks.
type terms [4]float64

// fit finds the costs of each kind of process such that the sum of the squared relative errors is
// least, and none is below zero. runs are all with Vitess, or all without it. Where two costs
// cannot be told apart by the runs, any split of them is as good: more runs with other batches
// and numbers of buckets tell more.
func fit(runs []round.Run) (fitted, error) {
	var f fitted
	for _, r := range runs {
		if r.Batch > 0 {
			f.from = append(f.from, r)
		}
	}
	if len(f.from) < 2 {
		return f, fmt.Errorf("only %d of %d runs say how long their batches were; two are needed", len(f.from), len(runs))
	}
	for _, k := range []struct {
		kind string
		cost *sim.Cost
		has  [4]bool // which terms a kind has
	}{
		{round.Load, &f.costs.Load, [4]bool{3: true}},
		{round.Velocityd, &f.costs.Service, [4]bool{0: true, 2: true, 3: true}},
		{round.Vtgate, &f.costs.Gate, [4]bool{0: true, 1: true, 2: true}},
		{round.Vttablet, &f.costs.Tablet, [4]bool{1: true, 2: true}},
		{round.Mysqld, &f.costs.Server, [4]bool{1: true, 2: true}},
		{round.ZoneTablet, &f.costs.ZoneTablet, [4]bool{0: true}},
		{round.ZoneMysqld, &f.costs.ZoneServer, [4]bool{0: true}},
	} {
		var did []terms
		var took []float64
		for _, r := range f.from {
			if r.CPU[k.kind] == 0 {
				continue
			}
			t := termsOf(r)
			for i := range t {
				if !k.has[i] {
					t[i] = 0
				}
			}
			did, took = append(did, t), append(took, r.CPU[k.kind])
		}
		c := leastSquares(did, took)
		*k.cost = sim.Cost{Batch: micros(c[0]), Part: micros(c[1]), Bucket: micros(c[2]), Check: micros(c[3])}
	}
	return f, nil
}

func micros(us float64) time.Duration {
	return time.Duration(math.Round(us * float64(time.Microsecond)))
}

func termsOf(r round.Run) terms {
	parts := partsOf(r.Batch, r.Buckets, r.Touched)
	return terms{1 / r.Batch, parts / r.Batch, float64(r.Buckets), 1}
}

// partsOf returns how many shards a batch of lone checks touches on average, where lanes are by
// shard: a check of two buckets shares a batch with those on the same shard or, if its buckets lie on
// two, with others of that sort.
func partsOf(batch float64, buckets, shards int) float64 {
	if buckets == 1 || shards <= 1 {
		return 1
	}
	n := float64(shards)
	return 1/n + (1-1/n)*max(mixedParts(2*batch, shards), 2)
}

// mixedParts returns on how many shards so many buckets lie.
func mixedParts(named float64, shards int) float64 {
	return float64(shards) * (1 - math.Pow(1-1/float64(shards), named))
}

// leastSquares finds costs of at least zero such that did·costs is near to took, by relative error.
// It improves one cost after the other, which comes to the best of all, since the error is convex.
func leastSquares(did []terms, took []float64) (costs terms) {
	const steps = 200_000
	for range steps {
		for i := range costs {
			var above, below float64
			for r := range did {
				rest := 1.0
				for j := range costs {
					if j != i {
						rest -= did[r][j] / took[r] * costs[j]
					}
				}
				x := did[r][i] / took[r]
				above, below = above+rest*x, below+x*x
			}
			if below > 0 {
				costs[i] = max(above/below, 0)
			}
		}
	}
	return costs
}
