package db

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"velocityd/service"
)

// dialect is what differs between the engines in the statements of a check: see Engine.dialect. The
// sessions' settings differ besides: see session.go.
type dialect struct {
	// hasRoutines says that the procedures are there: a lone check is one CALL, and expired
	// attempt ids are deleted by one. It also says which columns zone_attempt has.
	hasRoutines bool
	// skipsLocked says that SELECT … FOR UPDATE SKIP LOCKED works. Elsewhere a batch waits for whoever
	// holds one of its buckets.
	skipsLocked bool
	// isSharded says that the buckets lie on shards: a statement names buckets of one shard and
	// one zone only, and shards are gone through in order.
	isSharded bool
	// idStep is what stands between the ids of rows that one INSERT makes, as an expression.
	idStep string
	// mostRows is how many rows the engine answers with at most; 0 means any number.
	mostRows int
	// secrets says that the engine's errors repeat the statement with its values, and that vtgate or
	// TiDB has written them.
	secrets bool
}

// dialect returns the engine's.
func (e Engine) dialect() dialect {
	switch e {
	case EngineVitess:
		// vttablet refuses answers of more than 10,000 rows unless it is told otherwise.
		return dialect{skipsLocked: true, isSharded: true, idStep: "1", mostRows: 10_000, secrets: true}
	case EngineTiDB:
		return dialect{idStep: "@@auto_increment_increment", secrets: true}
	}
	return dialect{hasRoutines: true, skipsLocked: true, idStep: "@@auto_increment_increment"}
}

// lockFree ends a SELECT that locks the rows which nobody holds. Without SKIP LOCKED it waits for the others.
func (d dialect) lockFree() string {
	if d.skipsLocked {
		return " FOR UPDATE SKIP LOCKED;"
	}
	return " FOR UPDATE;"
}

// attemptColumns are those of zone_attempt that a batch writes. Where there are no procedures
// the table also has the key of one of the check's buckets, see keeper: the shard of that bucket
// remembers the attempt.
func (d dialect) attemptColumns() string {
	if d.hasRoutines {
		return "attempt_id, created_at, expires_at, answer"
	}
	return "attempt_id, bucket_key, created_at, expires_at, answer"
}

// parts yields the parts of a list of buckets that one statement may name. The list must be in
// lock order. Where there are shards, a part has one zone and one shard; otherwise the list is
// the only part.
func (b *batch) parts(buckets []service.Bucket) iter.Seq[[]service.Bucket] {
	if !b.conn.dialect.isSharded {
		return func(yield func([]service.Bucket) bool) { yield(buckets) }
	}
	return b.runs(buckets, func(x, y service.Bucket) bool { return x.ZoneID == y.ZoneID && b.shardOf(x) == b.shardOf(y) })
}

// shards yields the parts of a list of buckets that lie on one shard. The list must be in lock
// order.
func (b *batch) shards(buckets []service.Bucket) iter.Seq[[]service.Bucket] {
	if !b.conn.dialect.isSharded {
		return func(yield func([]service.Bucket) bool) { yield(buckets) }
	}
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

// where writes a condition that is true for the rows of one of parts. For each zone, more may
// write a further condition. Where there are shards, the condition has no OR, which would send
// the statement to all of them.
func (b *batch) where(r *reading, part []service.Bucket, more func(zoneID int64)) {
	if !b.conn.dialect.isSharded {
		r.keys(part, more)
		return
	}
	r.sql("(zone_id = ").int(part[0].ZoneID).sql(" AND bucket_key ")
	if len(part) == 1 {
		r.sql("= ").string(part[0].Key)
	} else {
		r.sql("IN ").list(len(part), func(i int) { r.string(part[i].Key) })
	}
	if more != nil {
		more(part[0].ZoneID)
	}
	r.sql(")")
}

// bounded returns n, or what the engine answers with at most if that is less.
func (d dialect) bounded(n int) int {
	if d.mostRows == 0 {
		return n
	}
	return min(n, d.mostRows)
}

// silentBound is the statement that lets a session's transactions be silent for silentTx seconds
// at most, or nothing where batches say so each by itself. version is what the engine answers to
// VERSION(): an engine that is forced by Options may run on another one. On Vitess the session's
// settings have a bound. On TiDB it also says that a bucket is locked by an INSERT … ON DUPLICATE
// KEY UPDATE that changes nothing: tidb_lock_unchanged_keys may be off globally.
func silentBound(version string) string {
	switch {
	case strings.Contains(version, "MariaDB"):
		// MySQL has no such variable: batches set its wait_timeout.
		return fmt.Sprint("SET SESSION idle_transaction_timeout = ", silentTx)
	case strings.Contains(version, "TiDB"):
		return fmt.Sprint("SET SESSION tidb_idle_transaction_timeout = ", silentTx, ", tidb_txn_mode = 'pessimistic', tidb_lock_unchanged_keys = 1")
	}
	return ""
}
