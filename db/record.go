package db

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"

	"velocityd/db/session"
	"velocityd/service"
)

// commit records a ruling, commits, and gives the txns their ids.
//
// The rows of one INSERT … VALUES have consecutive ids, auto_increment_increment
// apart, from the one that the engine answers (MySQL manual, "AUTO_INCREMENT
// Handling in InnoDB": simple inserts).
func (b *batch) commit(ctx context.Context, ruling *service.Ruling) error {
	if ruling.IsEmpty() {
		return b.roll(ctx)
	}
	// Fails where there is no such savepoint, and then nothing behind it runs.
	r := b.conn.Reading()
	p := r.SQL("RELEASE SAVEPOINT velocityd;")
	before := 0
	if len(ruling.Repeats) > 0 {
		before = b.dialect.repeat(b, p, ruling)
	}
	b.insertTxns(p, ruling)
	b.updateLockouts(p, ruling)
	b.writeSeries(p, ruling)
	b.writeImprintKeys(p, ruling)
	b.rememberAttempts(p, ruling)
	b.writeTallies(p, ruling)
	first, err := b.dialect.record(ctx, b, &r, before, ruling)
	if err != nil {
		return err
	}
	for _, bucket := range b.named(b.locks.made) { // for good only now
		b.cache.sawRow(bucket)
	}
	b.cache.timeouts.forget(recorded(ruling)...)
	if len(ruling.Txns) == 0 {
		return nil
	}
	ruling.Number(first, b.known.idStep)
	return nil
}

// recorded returns the buckets of which a ruling records something in zone_txn.
func recorded(ruling *service.Ruling) []service.Bucket {
	buckets := make([]service.Bucket, 0, len(ruling.Txns)+len(ruling.Repeats))
	for _, txn := range ruling.Txns {
		buckets = append(buckets, txn.Bucket)
	}
	for _, r := range ruling.Repeats {
		buckets = append(buckets, r.Bucket)
	}
	return buckets
}

// Columns of the rows that a batch writes.
const (
	txnRowColumns     = "created_at, zone_id, bucket_key, blocked, would_block, counted, reason"
	longTxnRowColumns = ", override_id, attempt_id, check_id, check_buckets"
	repeatColumns     = ", repeats, repeated_at"
	imprintColumn     = ", imprint"
	allTxnRowColumns  = txnRowColumns + longTxnRowColumns + repeatColumns
)

// insertTxns writes the rows of all txns. The columns of checks of several buckets, of checks with an attempt id and of
// denied ones are left out where there are none: four columns that are NULL cost MariaDB a tenth of a row. So are those
// of a txn that stands for several attempts.
func (b *batch) insertTxns(p *session.Packet, ruling *service.Ruling) {
	if len(ruling.Txns) == 0 {
		return
	}
	counts := slices.ContainsFunc(ruling.Txns, func(txn service.Txn) bool { return txn.Attempts > 1 })
	long := counts || len(b.attemptIDs) > 0 || len(slices.Compact(slices.Clone(ruling.TxnChecks))) < len(ruling.Txns) ||
		slices.ContainsFunc(ruling.Txns, func(txn service.Txn) bool { return txn.OverrideID != 0 })
	p.SQL("INSERT INTO zone_txn (" + txnRowColumns)
	if long {
		p.SQL(longTxnRowColumns)
	}
	if counts {
		p.SQL(repeatColumns)
	}
	if len(ruling.Imprints) > 0 {
		p.SQL(imprintColumn)
	}
	p.SQL(") VALUES ")
	created := string(new(session.Packet).Instant(ruling.Txns[0].CreatedAt.Time).Text) // that of all txns of a batch
	var checkID int64
	var ofCheck, left int // how many txns the check has, and how many of them are to be written
	for i, txn := range ruling.Txns {
		if left == 0 {
			checkID, ofCheck = rand.Int64(), txnsOfCheckAt(ruling.TxnChecks, i)
			left = ofCheck
		}
		left--
		p.SQL("(").SQL(created).SQL(",").Int(txn.Bucket.ZoneID).SQL(",").Quote(txn.Bucket.Key).SQL(",").
			Bool(txn.Blocked).SQL(",").Bool(txn.WouldBlock).SQL(",").Bool(txn.Counted).SQL(",").OrNull(string(txn.Reason))
		if long {
			p.SQL(",").IDOrNull(txn.OverrideID).SQL(",").OrNull(txn.AttemptID)
		}
		switch {
		case long && ofCheck > 1:
			p.SQL(",").Int(checkID).SQL(",").Int(int64(ofCheck))
		case long:
			p.SQL(",NULL,NULL")
		}
		switch {
		case txn.Attempts > 1:
			p.SQL(",").Int(int64(txn.Attempts - 1)).SQL(",").SQL(created)
		case counts:
			p.SQL(",NULL,NULL")
		}
		if len(ruling.Imprints) > 0 {
			writeImprint(p, ruling.Imprints[i])
		}
		p.SQL("),")
	}
	p.Text[len(p.Text)-1] = ';'
}

// txnsOfCheckAt returns how many txns the check has whose first txn has the place first. checks are those
// of all txns.
func txnsOfCheckAt(checks []int, first int) int {
	n := slices.IndexFunc(checks[first:], func(of int) bool { return of != checks[first] })
	if n < 0 {
		return len(checks) - first
	}
	return n
}

// updateLockouts writes the lockouts that begin. The rows are locked already.
func (b *batch) updateLockouts(p *session.Packet, ruling *service.Ruling) {
	for _, bucket := range b.buckets {
		lockout, begins := ruling.Lockouts[bucket]
		if !begins {
			continue
		}
		p.SQL("UPDATE zone_bucket_lock SET locked_until = ").Instant(lockout.Until).
			SQL(", lockout_us = ").Int(lockout.Length.Microseconds()).SQL(", lockout_shadow = ").Bool(
			lockout.Shadow).WhereBucket(bucket).SQL(";")
	}
}

// rememberAttempts writes the answers to attempt ids. The ids of txns follow
// from that of the first one, which only the engine knows yet.
func (b *batch) rememberAttempts(p *session.Packet, ruling *service.Ruling) {
	var expired []string // that begin anew
	written := new(session.Packet)
	for _, i := range ruling.Recorded {
		if id := b.checks[i].AttemptID; id != "" {
			if _, remembered := b.ledger.Attempts[id]; remembered {
				expired = append(expired, id)
			}
			written.SQL(",(").Quote(id).SQL(",")
			b.dialect.writeAttemptBucket(b, written, b.checks[i])
			b.writeAttempt(written, ruling.Decisions[i])
			written.SQL(")")
		}
	}
	if len(written.Text) == 0 {
		return
	}
	if len(expired) > 0 {
		b.dialect.forget(b, p, expired)
	}
	p.SQL("INSERT INTO zone_attempt (" + b.dialect.attemptColumns() + ") VALUES ")
	p.Text = append(p.Text, written.Text[1:]...)
	p.SQL(";")
}

// attemptBucket returns the bucket whose key the row of a check's attempt id has. On Vitess that row is
// stored on the shard that commits last, so that it never claims a decision whose txns were not
// committed.
func (b *batch) attemptBucket(check service.Check) service.Bucket {
	return slices.MinFunc(check.Buckets, func(x, y service.Bucket) int {
		return cmp.Or(slices.Index(b.touched, b.shardOf(y))-slices.Index(b.touched, b.shardOf(x)), x.Compare(y))
	})
}

// writeAttempt writes the other columns of zone_attempt: see history.ParseAnswer.
func (b *batch) writeAttempt(p *session.Packet, d service.Decision) {
	p.Instant(d.CheckedAt.Time).SQL(",").Instant(service.NewAttempt(d).ExpiresAt.Time).SQL(",JSON_ARRAY")
	p.List(len(d.Verdicts), func(j int) {
		v := d.Verdicts[j]
		p.SQL("JSON_ARRAY(").Int(v.Bucket.ZoneID).SQL(",").Quote(v.Bucket.Key).
			SQL(",").Bool(v.Blocked).SQL(",").Bool(v.WouldBlock).
			SQL(",")
		b.txnID(p, v.TxnID)
		p.SQL(",").Int(int64(v.Rate)).SQL(",").Seconds(v.Window.Duration)
		if v.Unmetered {
			p.SQL(",NULL,NULL")
		} else {
			p.SQL(",").Int(int64(v.Velocity)).SQL(",").Int(int64(v.Remaining()))
		}
		p.SQL(",").Seconds(v.RetryAfter.Duration).SQL(",").Quote(string(v.Reason)).SQL(",").Int(int64(v.OverrideID)).
			SQL(",").Seconds(v.ResetAfter.Duration).SQL(")")
	})
}
