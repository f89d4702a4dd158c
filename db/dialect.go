package db

import (
	"velocityd/db/engine"
)

// dialect is what differs between the engines in the statements of a check: see dialectOf. The
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
}

// dialectOf returns the dialect of an engine.
func dialectOf(e engine.Engine) dialect {
	switch e {
	case engine.Vitess:
		// vttablet refuses answers of more than 10,000 rows unless it is told otherwise.
		return dialect{skipsLocked: true, isSharded: true, idStep: "1", mostRows: 10_000}
	case engine.TiDB:
		return dialect{idStep: "@@auto_increment_increment"}
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

// bounded returns n, or what the engine answers with at most if that is less.
func (d dialect) bounded(n int) int {
	if d.mostRows == 0 {
		return n
	}
	return min(n, d.mostRows)
}
