package db

import (
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/go-sql-driver/mysql"

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
	r := b.conn.reading()
	p := r.sql("RELEASE SAVEPOINT velocityd;")
	before := b.countRepeats(p, ruling)
	b.insertTxns(p, ruling)
	b.updateLockouts(p, ruling)
	b.writeSeries(p, ruling)
	b.rememberAttempts(p, ruling)
	b.writeTallies(p, ruling)
	send := b.sendAll
	if !b.conn.dialect.hasRoutines {
		send = b.sendApart
	}
	first, err := send(ctx, &r, before, len(ruling.Txns))
	if err != nil {
		if isNumber(err, errLockWait) && b.conn.dialect.hasRoutines {
			b.noteStuck(ctx, ruling)
			return fmt.Errorf("%w: %w", errRecordingStuck, err)
		}
		return err
	}
	for _, bucket := range b.named(b.locks.made) { // for good only now
		b.hints.sawRow(bucket)
	}
	b.hints.stuck.recorded(recorded(ruling)...)
	if len(ruling.Txns) == 0 {
		return nil
	}
	if err := b.conn.tellsNew(first, b.now); err != nil {
		return err
	}
	ruling.Number(first, b.idStep)
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

// sendAll sends the packet that records so many txns, after some other statements, and commits. It returns the
// first txn's id, if there is any. After an error that is none of the engine's own, nobody knows whether
// the packet took effect.
func (b *batch) sendAll(ctx context.Context, r *reading, before, txns int) (first uint64, err error) {
	b.reset(&r.packet)
	r.sql("COMMIT")
	if int64(len(r.text)) >= b.conn.maxPacket {
		return 0, errTooLong
	}
	answer, err := b.conn.ExecContext(ctx, b.conn.query(&r.packet), nil)
	if err != nil {
		return 0, err
	}
	if txns == 0 {
		return 0, nil
	}
	// The answers are those to RELEASE SAVEPOINT, to what came before, to the INSERT of the txns, to others, and to COMMIT.
	inserted := 1 + before
	result, ok := answer.(mysql.Result)
	if !ok || len(result.AllLastInsertIds()) <= inserted || result.AllRowsAffected()[inserted] != int64(txns) {
		return 0, errMisfit
	}
	return uint64(result.AllLastInsertIds()[inserted]), nil
}

// sendApart does what sendAll does on engines where a COMMIT can fail half-way: its errors tell
// the COMMIT's from those of the statements before it, after which nothing was recorded.
func (b *batch) sendApart(ctx context.Context, r *reading, _, _ int) (first uint64, err error) {
	r.sql("SELECT LAST_INSERT_ID();")
	r.each(1, func(row []driver.Value) error {
		first = uint64(asInt(row[0]))
		return nil
	})
	return first, b.commitApart(ctx, r)
}

// commitApart sends a packet that records something and ends in a SELECT, and commits. That
// SELECT tells an error of the COMMIT from one before it.
func (b *batch) commitApart(ctx context.Context, r *reading) error {
	b.reset(&r.packet)
	r.sql("COMMIT")
	switch err := r.send(ctx, b.conn); {
	case err == nil, isLost(err), errors.Is(err, errTooLong):
		return err
	case r.answered < len(r.readers):
		return unrecorded(err)
	case isOneOf(err, rolledBack()):
		return err
	default:
		return uncertain(err)
	}
}

// Columns of the rows that a batch writes.
const (
	txnRowColumns     = "created_at, zone_id, bucket_key, blocked, would_block, counted, reason"
	longTxnRowColumns = ", override_id, attempt_id, check_id, check_buckets"
	repeatColumns     = ", repeats, repeated_at"
	allTxnRowColumns  = txnRowColumns + longTxnRowColumns + repeatColumns
)

// insertTxns writes the rows of all txns. What only checks of several buckets, checks with an
// attempt id and denied ones have is left out where there are none: four columns that are NULL
// cost MariaDB a tenth of a row. So is what only a txn has that stands for several attempts.
func (b *batch) insertTxns(p *packet, ruling *service.Ruling) {
	if len(ruling.Txns) == 0 {
		return
	}
	counts := slices.ContainsFunc(ruling.Txns, func(txn service.Txn) bool { return txn.Attempts > 1 })
	long := counts || len(b.attemptIDs) > 0 || len(slices.Compact(slices.Clone(ruling.TxnChecks))) < len(ruling.Txns) ||
		slices.ContainsFunc(ruling.Txns, func(txn service.Txn) bool { return txn.OverrideID != 0 })
	p.sql("INSERT INTO zone_txn (" + txnRowColumns)
	if long {
		p.sql(longTxnRowColumns)
	}
	if counts {
		p.sql(repeatColumns)
	}
	p.sql(") VALUES ")
	created := string(new(packet).instant(ruling.Txns[0].CreatedAt).text) // that of all txns of a batch
	var checkID int64
	var ofCheck, left int // how many txns the check has, and how many of them are to be written
	for i, txn := range ruling.Txns {
		if left == 0 {
			checkID, ofCheck = rand.Int64(), txnsOfCheckAt(ruling.TxnChecks, i)
			left = ofCheck
		}
		left--
		p.sql("(").sql(created).sql(",").int(txn.Bucket.ZoneID).sql(",").string(txn.Bucket.Key).sql(",").
			bool(txn.Blocked).sql(",").bool(txn.WouldBlock).sql(",").bool(txn.Counted).sql(",").orNull(string(txn.Reason))
		if long {
			p.sql(",").idOrNull(txn.OverrideID).sql(",").orNull(txn.AttemptID)
		}
		switch {
		case long && ofCheck > 1:
			p.sql(",").int(checkID).sql(",").int(int64(ofCheck))
		case long:
			p.sql(",NULL,NULL")
		}
		switch {
		case txn.Attempts > 1:
			p.sql(",").int(int64(txn.Attempts - 1)).sql(",").sql(created)
		case counts:
			p.sql(",NULL,NULL")
		}
		p.sql("),")
	}
	p.text[len(p.text)-1] = ';'
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
func (b *batch) updateLockouts(p *packet, ruling *service.Ruling) {
	for _, bucket := range b.buckets {
		lockout, begins := ruling.Lockouts[bucket]
		if !begins {
			continue
		}
		p.sql("UPDATE zone_bucket_lock SET locked_until = ").instant(lockout.Until).
			sql(", lockout_us = ").int(lockout.Length.Microseconds()).sql(", lockout_shadow = ").bool(lockout.Shadow).whereBucket(bucket).sql(";")
	}
}

// rememberAttempts writes what is answered to attempt ids. The ids of txns follow
// from that of the first one, which only the engine knows yet.
func (b *batch) rememberAttempts(p *packet, ruling *service.Ruling) {
	var expired []string // that begin anew
	written := new(packet)
	for _, i := range ruling.Recorded {
		if id := b.checks[i].AttemptID; id != "" {
			if _, remembered := b.ledger.Attempts[id]; remembered {
				expired = append(expired, id)
			}
			written.sql(",(").string(id).sql(",")
			if !b.conn.dialect.hasRoutines {
				written.string(b.keeper(b.checks[i]).Key).sql(",")
			}
			b.writeAttempt(written, ruling.Decisions[i])
			written.sql(")")
		}
	}
	if len(written.text) == 0 {
		return
	}
	if len(expired) > 0 {
		b.forgetAttempts(p, expired)
	}
	p.sql("INSERT INTO zone_attempt (" + b.conn.dialect.attemptColumns() + ") VALUES ")
	p.text = append(p.text, written.text[1:]...)
	p.sql(";")
}

// keeper returns the bucket of a check whose key the row of its attempt id has: the first one of
// those on the shard that Vitess commits last. If a COMMIT ends half-way, the attempt is not known,
// and its retry is decided anew. It would otherwise be answered with what one of its buckets has
// no txn of.
func (b *batch) keeper(check service.Check) service.Bucket {
	return slices.MinFunc(check.Buckets, func(x, y service.Bucket) int {
		return cmp.Or(slices.Index(b.touched, b.shardOf(y))-slices.Index(b.touched, b.shardOf(x)), x.Compare(y))
	})
}

// forgetAttempts deletes the rows of attempt ids that have expired.
func (b *batch) forgetAttempts(p *packet, ids []string) {
	if b.conn.dialect.hasRoutines {
		list, _ := json.Marshal(ids) // strings cannot fail
		p.sql("CALL forget_attempts(").string(string(list)).sql(");")
		return
	}
	p.sql("DELETE FROM zone_attempt WHERE ")
	b.attemptsIn(p, ids)
	p.sql(" AND expires_at <= ").instant(b.now).sql(";")
}

// writeAttempt writes the other columns of zone_attempt: see parseAnswer.
func (b *batch) writeAttempt(p *packet, d service.Decision) {
	p.instant(d.CheckedAt).sql(",").instant(service.NewAttempt(d).ExpiresAt).sql(",JSON_ARRAY")
	p.list(len(d.Verdicts), func(j int) {
		v := d.Verdicts[j]
		p.sql("JSON_ARRAY(").int(v.Bucket.ZoneID).sql(",").string(v.Bucket.Key).
			sql(",").bool(v.Blocked).sql(",").bool(v.WouldBlock).
			sql(",")
		b.txnID(p, v.TxnID)
		p.sql(",").int(int64(v.Rate)).sql(",").seconds(v.Window)
		if v.Unmetered {
			p.sql(",NULL,NULL")
		} else {
			p.sql(",").int(int64(v.Velocity)).sql(",").int(int64(v.Remaining()))
		}
		p.sql(",").seconds(v.RetryAfter).sql(",").string(string(v.Reason)).sql(",").int(int64(v.OverrideID)).sql(")")
	})
}
