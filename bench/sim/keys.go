package sim

import (
	"math"
	"math/rand/v2"
)

// bucket numbers a bucket. Users have even numbers and addresses odd ones.
type bucket uint64

// hash tells shards apart as evenly as xxhash does; it is another function.
func (b bucket) hash() uint64 {
	h := uint64(b) + 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

func (b bucket) shard(shards int) int { return int(b.hash() % uint64(shards)) }

// draw returns the rank of a key, counted from 0. It is drawn from the density 1/x^Exponent between 1
// and Count+1, rounded down, which for ranks above a few is the law of Zipf, and has no limit for
// the exponent.
func (k Keys) draw(random *rand.Rand) uint64 {
	n, u := float64(k.Count)+1, random.Float64()
	var x float64
	switch rest := 1 - k.Exponent; {
	case k.Exponent == 0:
		return random.Uint64N(uint64(k.Count))
	case rest == 0:
		x = math.Pow(n, u)
	default:
		x = math.Pow(1+u*(math.Pow(n, rest)-1), 1/rest)
	}
	return min(uint64(x), uint64(k.Count)) - 1
}

// First returns the share of all draws that the first key has.
func (k Keys) First() float64 {
	n := float64(k.Count) + 1
	switch rest := 1 - k.Exponent; {
	case k.Exponent == 0:
		return 1 / float64(k.Count)
	case rest == 0:
		return math.Log(2) / math.Log(n)
	default:
		return (math.Pow(2, rest) - 1) / (math.Pow(n, rest) - 1)
	}
}
