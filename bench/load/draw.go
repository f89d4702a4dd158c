package main

import (
	"math/rand/v2"
	"strconv"

	"velocityd/bench/workload"
)

// draws draws the buckets of one caller's calls. Every draw uses the same memory, so that
// the generator makes no garbage.
type draws struct {
	order   []workload.Draw
	random  *rand.Rand
	buckets []bucket
	fresh   uint64 // number of the next new key, made of the round, the caller and a count
	prefix  []byte
}

func newDraws(order workload.Order, callerNo int) *draws {
	d := &draws{
		order:   order.Draws,
		random:  rand.New(rand.NewPCG(order.Seed, uint64(callerNo))),
		buckets: make([]bucket, max(order.Checks, 1)*len(order.Draws)),
	}
	d.prefix = strconv.AppendUint(d.prefix, order.Seed, 36)
	d.prefix = append(d.prefix, '-')
	d.prefix = strconv.AppendInt(d.prefix, int64(callerNo), 36)
	d.prefix = append(d.prefix, '-')
	for i := range d.buckets {
		d.buckets[i] = bucket{zone: order.Draws[i%len(order.Draws)].Zone, key: make([]byte, 0, 64)}
	}
	return d
}

// next returns the buckets of the next call, those of one check after those of
// another, valid until the next call of next.
func (d *draws) next() []bucket {
	drawn := 0
	for i := range d.buckets {
		draw := d.order[i%len(d.order)]
		key := append(d.buckets[i].key[:0], draw.Prefix...)
		switch {
		case draw.Same:
			key = workload.AppendNumber(key, drawn)
		case draw.Of == 0:
			d.fresh++
			key = strconv.AppendUint(append(key, d.prefix...), d.fresh, 36)
		case draw.Hot > 0 && d.random.Float64() < draw.Hot:
			drawn = 0
			key = workload.AppendNumber(key, drawn)
		default:
			drawn = d.random.IntN(draw.Of)
			key = workload.AppendNumber(key, drawn)
		}
		d.buckets[i].key = key
	}
	return d.buckets
}
