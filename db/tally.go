package db

import (
	"database/sql/driver"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

// tally says how many counted txns a bucket has in the interval (from, until]. The bucket's
// lock row keeps it. A batch then counts only the txns that have come into the window or left
// it since, and not all txns of a bucket with a high rate.
type tally struct {
	count       int
	from, until time.Time
	countedAt   time.Time // when they were last counted one by one
	read        int       // how many of them were read to know it
}

// oldestTally is how long a tally is used before all txns are counted again. If a person edits
// zone_txn by hand, tallies are wrong for so long at most.
const oldestTally = time.Minute

// fewTxns is how many txns are read again each time rather than kept in a tally: to write a
// tally changes a row and costs an entry in the binary log.
const fewTxns = 32

// suffices says that the velocity at now, of the txns after since, follows from t and the txns that came or went
// since then.
func (t *tally) suffices(now, since time.Time) bool {
	return t != nil && !now.Before(t.until) && !t.from.After(since) && now.Sub(t.countedAt) <= oldestTally
}

// readTally reads the tally of a bucket, if it has one, from the columns of its lock row.
func (b *batch) readTally(place int, columns []driver.Value) (err error) {
	if columns[2] == nil {
		return nil
	}
	t := tally{count: int(session.AsInt(columns[0]))}
	for i, instant := range []*time.Time{&t.from, &t.until, &t.countedAt} {
		if *instant, err = session.AsInstant(columns[1+i]); err != nil {
			return err
		}
	}
	b.of[place].tally = &t
	return nil
}

// countMoved computes velocities from tallies and the txns that came or went since. If these
// txns are too many, or a tally cannot be right, the tally is dropped.
func (b *batch) countMoved(r *session.Reading, limits []limit) {
	r.SQL("SELECT zone_id, bucket_key, created_at" + fromCounted)
	moved := make(map[int]tally, len(limits)) // by places
	for i, l := range limits {
		if i > 0 {
			r.SQL(" OR ")
		}
		old, begin := b.of[l.place].tally, l.since
		moved[l.place] = tally{count: old.count, from: begin, until: b.now, countedAt: old.countedAt}
		r.Keys([]service.Bucket{l.bucket}, func(int64) {
			r.SQL(" AND (created_at > ").Instant(old.from).SQL(" AND created_at <= ").Instant(begin).
				SQL(" OR created_at > ").Instant(old.until).SQL(")")
		})
	}
	most, read := len(limits)*(mostListed+1), 0
	r.SQL(") LIMIT ").Int(int64(most)).SQL(";")
	r.Each(3, func(row []driver.Value) error {
		read++
		return b.readMoved(row, moved)
	})
	r.Afterwards(func() {
		for place, t := range moved {
			if read < most && t.count >= 0 {
				b.renew(place, t)
			} else {
				b.of[place].tally = &tally{until: b.of[place].tally.until}
			}
		}
	})
}

// readMoved reads a txn that came or went since its bucket's tally was made.
func (b *batch) readMoved(row []driver.Value, moved map[int]tally) error {
	place, at, err := b.txn(row)
	if err != nil {
		return err
	}
	t := moved[place]
	t.read++
	if at.After(b.of[place].tally.until) {
		t.count++
	}
	if !at.After(t.from) {
		t.count--
	}
	t.until = later(t.until, at)
	moved[place] = t
	return nil
}

// later returns the later of two instants. A tally ends at the newest txn if that is later than
// now, which happens after the clock was set back.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// renew takes the velocity of a bucket from its new tally. The tally will be written if it
// saves the next batch more than fewTxns.
func (b *batch) renew(place int, t tally) {
	b.ledger.Buckets[place].Velocity = &service.Velocity{Count: t.count}
	if t.read > fewTxns {
		b.of[place].renewed = &t
	}
}

// writeTallies writes the new tallies, which include the txns that are recorded now. It removes
// an old tally whose interval contains now, because that tally does not count these txns; this
// happens after the clock was set back. The rows are locked already.
func (b *batch) writeTallies(p *session.Packet, ruling *service.Ruling) {
	for _, txn := range ruling.Txns {
		if !txn.Counted {
			continue
		}
		if place, _ := b.placeOf(txn.Bucket); b.of[place].renewed != nil {
			b.of[place].renewed.count++
		}
	}
	written := new(session.Packet)
	for i, bucket := range b.buckets {
		t, old := b.of[i].renewed, b.of[i].tally
		switch {
		case t != nil:
			written.SQL(",(").Int(bucket.ZoneID).SQL(",").Quote(bucket.Key).SQL(",").Int(int64(t.count)).
				SQL(",").Instant(t.from).SQL(",").Instant(t.until).SQL(",").Instant(t.countedAt).SQL(")")
		case old != nil && !b.now.After(old.until):
			written.SQL(",(").Int(bucket.ZoneID).SQL(",").Quote(bucket.Key).SQL(",NULL,NULL,NULL,NULL)")
		}
	}
	if len(written.Text) == 0 {
		return
	}
	p.SQL("INSERT INTO zone_bucket_lock (zone_id, bucket_key, tally, tally_from, tally_until, tallied_at) VALUES ")
	p.Text = append(p.Text, written.Text[1:]...)
	p.SQL(" ON DUPLICATE KEY UPDATE tally = VALUES(tally), tally_from = VALUES(tally_from), " +
		"tally_until = VALUES(tally_until), tallied_at = VALUES(tallied_at);")
}
