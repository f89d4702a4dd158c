package db

import (
	"iter"
	"slices"

	"velocityd/service"
)

// parts yields the parts of a list of buckets that one statement may name. The list must be in
// lock order. Where there are shards, a part has one zone and one shard; otherwise the list is
// the only part.
func (b *batch) parts(buckets []service.Bucket) iter.Seq[[]service.Bucket] {
	return b.runs(buckets, b.shardMap.Together)
}

// shards yields the parts of a list of buckets that lie on one shard. The list must be in lock
// order.
func (b *batch) shards(buckets []service.Bucket) iter.Seq[[]service.Bucket] {
	return b.runs(buckets, func(x, y service.Bucket) bool { return b.shardOf(x) == b.shardOf(y) })
}

// runs yields the longest parts of a list in which each bucket goes with the one before it. A
// part is on one shard. It is noted which shards come first in the transaction.
func (b *batch) runs(buckets []service.Bucket, together func(x, y service.Bucket) bool) iter.Seq[[]service.Bucket] {
	return func(yield func([]service.Bucket) bool) {
		first := 0
		for i := 1; i <= len(buckets); i++ {
			if i < len(buckets) && together(buckets[i-1], buckets[i]) {
				continue
			}
			if shard := b.shardOf(buckets[first]); !slices.Contains(b.touched, shard) {
				b.touched = append(b.touched, shard)
			}
			if !yield(buckets[first:i]) {
				return
			}
			first = i
		}
	}
}
