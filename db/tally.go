package db

import (
	"database/sql/driver"
	"time"

	"velocityd/service"
)

// tally is how many counted txns a bucket has in the interval (from, until]. Its lock
// row keeps it, so that the many txns of a bucket with a high rate are not counted
// again for each batch, but only those that came and went since.
type tally struct {
	count       int
	from, until time.Time
	countedAt   time.Time // when they were last counted one by one
	read        int       // how many of them were read to know it
}

// oldestTally is for how long txns are not counted one by one again. Tallies do not
// know what somebody does to the history by hand, and are wrong for so long.
const oldestTally = time.Minute

// fewTxns are read again rather than a tally written, which changes a row and is in
// the binary log.
const fewTxns = 32

// tells says that the velocity at now follows from t and a few txns more.
func (t tally) tells(now time.Time, window time.Duration) bool {
	return !now.Before(t.until) && !t.from.After(now.Add(-window)) && now.Sub(t.countedAt) <= oldestTally
}

// readTally reads the tally of a bucket, if it has one, from the columns of its lock row.
func (b *batch) readTally(bucket service.Bucket, columns []driver.Value) (err error) {
	if columns[2] == nil {
		return nil
	}
	t := tally{count: int(asInt(columns[0]))}
	for i, instant := range []*time.Time{&t.from, &t.until, &t.countedAt} {
		if *instant, err = asInstant(columns[1+i]); err != nil {
			return err
		}
	}
	b.tallies[bucket] = t
	return nil
}

// countMoved tells velocities by tallies and the txns that came or went since. Where
// these are many, or a tally can not be true, that tally tells nothing any more.
func (b *batch) countMoved(r *reading, limits []limit) {
	r.sql("SELECT zone_id, bucket_key, created_at" + fromCounted)
	told := make(map[service.Bucket]tally, len(limits))
	for i, l := range limits {
		if i > 0 {
			r.sql(" OR ")
		}
		old, begin := b.tallies[l.bucket], b.now.Add(-l.window)
		told[l.bucket] = tally{count: old.count, from: begin, until: b.now, countedAt: old.countedAt}
		r.keys([]service.Bucket{l.bucket}, func(int64) {
			r.sql(" AND (created_at > ").instant(old.from).sql(" AND created_at <= ").instant(begin).
				sql(" OR created_at > ").instant(old.until).sql(")")
		})
	}
	most, read := len(limits)*(mostListed+1), 0
	r.sql(") LIMIT ").int(int64(most)).sql(";")
	r.each(func(row []driver.Value) error {
		read++
		return b.readMoved(row, told)
	})
	r.afterwards(func() {
		for bucket, t := range told {
			if read < most && t.count >= 0 {
				b.renew(bucket, t)
			} else {
				b.tallies[bucket] = tally{until: b.tallies[bucket].until}
			}
		}
	})
}

// readMoved reads a txn that came or went since its bucket's tally was made.
func (b *batch) readMoved(row []driver.Value, told map[service.Bucket]tally) error {
	bucket, at, err := b.txn(row)
	if err != nil {
		return err
	}
	t := told[bucket]
	t.read++
	if at.After(b.tallies[bucket].until) {
		t.count++
	}
	if !at.After(t.from) {
		t.count--
	}
	t.until = later(t.until, at)
	told[bucket] = t
	return nil
}

// later returns the later one of two instants. A tally reaches up to the newest txn,
// if a clock that stepped back has left one.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// renew takes the velocity of a bucket from its new tally, which is written if that
// spares the next batch more than a few txns.
func (b *batch) renew(bucket service.Bucket, t tally) {
	b.ledger.Velocities[bucket] = service.Velocity{Count: t.count}
	if t.read > fewTxns {
		b.renewed[bucket] = t
	}
}

// writeTallies writes the new tallies, with the txns that are recorded now, and takes
// away those that do not know of these txns: the clock was set back. The rows are
// locked already.
func (b *batch) writeTallies(p *packet, ruling *service.Ruling) {
	if len(b.tallies)+len(b.renewed) == 0 {
		return
	}
	for _, txn := range ruling.Txns {
		if t, isRenewed := b.renewed[txn.Bucket]; isRenewed && txn.Counted {
			t.count++
			b.renewed[txn.Bucket] = t
		}
	}
	written := new(packet)
	for _, bucket := range b.buckets {
		t, isRenewed := b.renewed[bucket]
		old, isTallied := b.tallies[bucket]
		switch {
		case isRenewed:
			written.sql(",(").int(bucket.ZoneID).sql(",").string(bucket.Key).sql(",").int(int64(t.count)).
				sql(",").instant(t.from).sql(",").instant(t.until).sql(",").instant(t.countedAt).sql(")")
		case isTallied && !b.now.After(old.until):
			written.sql(",(").int(bucket.ZoneID).sql(",").string(bucket.Key).sql(",NULL,NULL,NULL,NULL)")
		}
	}
	if len(written.text) == 0 {
		return
	}
	p.sql("INSERT INTO zone_bucket_lock (zone_id, bucket_key, tally, tally_from, tally_until, tallied_at) VALUES ")
	p.text = append(p.text, written.text[1:]...)
	p.sql(" ON DUPLICATE KEY UPDATE tally = VALUES(tally), tally_from = VALUES(tally_from), " +
		"tally_until = VALUES(tally_until), tallied_at = VALUES(tallied_at);")
}
