package db

import (
	"database/sql/driver"
	"slices"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

const (
	// mostListed is the highest rate of buckets whose txns are read one by one. For few txns,
	// GROUP BY and COUNT cost the engine twice as much.
	mostListed = 128
	// clockMargin is how much further back than they count txns are listed, because the list
	// is asked for before the engine's clock is known. If the clock turns out to be further
	// behind the estimate than this, the list is read again.
	clockMargin = time.Second
	// fromCounted reads the range of zone_txn_window that holds a bucket's counted txns, and
	// no other rows. FORCE INDEX is here and in other statements on locks and counts because
	// the optimizer chooses by statistics, which are missing for a new table and old for one
	// that grows fast: a scan in place of this range would read the whole table, and a locking
	// scan would lock rows of other buckets.
	fromCounted = " FROM zone_txn FORCE INDEX (zone_txn_window) WHERE counted = 1 AND ("
)

// listTxns lists the counted txns of buckets in zones with a low rate. A bucket holds at most
// its rate, except after its zone was narrowed, when it may hold any number: so the list has a
// LIMIT, and isCut says that it was reached.
func (b *batch) listTxns(r *session.Reading) {
	for i := range b.of {
		b.ledger.Buckets[i].Counted, b.ledger.Buckets[i].Velocity, b.of[i].renewed = nil, nil, nil
	}
	b.known.isCut = false
	var listed []service.Bucket
	for i, bucket := range b.buckets {
		if b.of[i].lock != held && b.known.plans[bucket.ZoneID].term.Window > 0 {
			listed = append(listed, bucket)
		}
	}
	if len(listed) == 0 {
		return
	}
	for part := range b.parts(listed) {
		b.listPart(r, part)
	}
}

// listPart lists the counted txns of buckets that one statement may name.
func (b *batch) listPart(r *session.Reading, part []service.Bucket) {
	most := len(part) * (mostListed + 1)
	if bound := b.dialect.bounds().mostRows; bound > 0 {
		most = min(most, bound)
	}
	r.SQL("SELECT zone_id, bucket_key, created_at" + fromCounted)
	r.Keys(part, func(zoneID int64) {
		r.SQL(" AND created_at > ").Instant(b.listedSince(zoneID))
	})
	r.SQL(") LIMIT ").Int(int64(most)).SQL(";")
	list := instants{of: b.ledger.Buckets}
	r.Each(3, func(row []driver.Value) error {
		place, at, err := b.txn(row)
		if err != nil {
			return err
		}
		list.add(place, at)
		b.known.isCut = b.known.isCut || len(list.all) == most
		return nil
	})
	r.Afterwards(list.close)
}

// listedSince returns the instant after which the txns of a zone's buckets were listed.
func (b *batch) listedSince(zoneID int64) time.Time {
	return b.known.plans[zoneID].term.Since(b.known.supposed.Add(-clockMargin))
}

// instants gathers the instants of buckets from rows. The rows of one bucket come one after the
// other, so their instants are a part of one slice, and their bucket's list is set once.
type instants struct {
	of    []service.BucketState
	all   []time.Time
	place int // of the bucket of the last rows
	first int // place in all of the first of them
}

func (l *instants) add(place int, at time.Time) {
	if place != l.place {
		l.close()
		l.place, l.first = place, len(l.all)
	}
	l.all = append(l.all, at)
}

// close adds the last rows to their bucket's list.
func (l *instants) close() {
	last := l.all[l.first:len(l.all):len(l.all)]
	switch counted := &l.of[l.place].Counted; {
	case len(last) == 0:
	case *counted == nil:
		*counted = last
	default:
		*counted = append(*counted, last...)
	}
}

// txn reads a row of zone_id, bucket_key and created_at.
func (b *batch) txn(row []driver.Value) (place int, at time.Time, err error) {
	if place, err = b.place(row); err != nil {
		return 0, at, err
	}
	at, err = session.AsInstant(row[2])
	return place, at, err
}

// limit is the limit by which a bucket's txns are counted.
type limit struct {
	place  int
	bucket service.Bucket
	rate   int
	since  time.Time // the instant after which they count
	// steady says that the bucket cannot hold more than its rate, because its limit was not
	// wider at any time since then.
	steady bool
}

// unsure returns the limits of the buckets for which too little was read to decide at now.
func (b *batch) unsure() []limit {
	overrides := service.IndexOverrides(b.now, b.ledger.Overrides).Spread(b.checks)
	var limits []limit
	for i, bucket := range b.buckets {
		zone, ok := b.known.zones[bucket.ZoneID]
		if !ok || b.of[i].lock != locked {
			continue
		}
		since := zone.Term().Since(b.now)
		l := limit{i, bucket, zone.Rate, since, !zone.overridden && !zone.wholeRule && zone.narrowedAt.Before(since)}
		if o := overrides.Of(zone.Zone, bucket); o != nil && o.Action == service.OverrideLimit &&
			zone.Mode != service.ModeOff {
			l.rate, l.since = o.Rate, zone.TermUnder(o).Since(b.now)
		}
		if !b.isSure(l) {
			limits = append(limits, l)
		}
	}
	return limits
}

// isSure says that enough was read of a bucket to know its velocity by limit l.
func (b *batch) isSure(l limit) bool {
	if velocity := b.ledger.Buckets[l.place].Velocity; velocity != nil {
		// For a bucket that is full, or that this batch fills, the time of the oldest txn is
		// needed too, and a plain count does not give it.
		return velocity.Count+b.of[l.place].asked < l.rate
	}
	return !b.known.isCut && b.known.plans[l.bucket.ZoneID].term.Window > 0 &&
		!l.since.Before(b.listedSince(l.bucket.ZoneID))
}

// count reads velocities at now. The first time it reads those of steady buckets, all at once.
// The next time it reads one by one those for which that was not enough, and returns true:
// after that reading all is known.
func (b *batch) count(r *session.Reading, limits []limit) (isAll bool) {
	var tallied, steady []limit
	for _, l := range limits {
		switch {
		case b.ledger.Buckets[l.place].Velocity != nil || !l.steady:
		case b.of[l.place].tally.suffices(b.now, l.since):
			tallied = append(tallied, l)
		default:
			steady = append(steady, l)
		}
	}
	if len(tallied) > 0 {
		size := len(tallied)
		if b.shardMap != nil {
			size = 1 // each has bounds of its own, and an OR would send the statement to all shards
		}
		for some := range slices.Chunk(tallied, size) {
			b.countMoved(r, some)
		}
	}
	if len(steady) > 0 {
		b.countAll(r, steady)
	}
	if len(tallied)+len(steady) > 0 {
		return false
	}
	for _, l := range limits {
		b.countBounded(r, l)
	}
	return true
}

// countAll counts the txns of buckets that hold no more than their rate.
func (b *batch) countAll(r *session.Reading, limits []limit) {
	buckets := make([]service.Bucket, len(limits))
	for i, l := range limits {
		buckets[i] = l.bucket
		b.ledger.Buckets[l.place].Velocity = &service.Velocity{}
	}
	for part := range b.parts(buckets) {
		r.SQL("SELECT zone_id, bucket_key, COUNT(*), MAX(created_at)" + fromCounted)
		r.Keys(part, func(zoneID int64) {
			r.SQL(" AND created_at > ").Instant(b.known.zones[zoneID].Term().Since(b.now))
		})
		r.SQL(") GROUP BY zone_id, bucket_key;")
		r.Each(4, b.readCount)
	}
}

// readCount reads how many counted txns a bucket has, and when the newest of them was.
func (b *batch) readCount(row []driver.Value) error {
	place, err := b.place(row)
	if err != nil {
		return err
	}
	newest, err := session.AsInstant(row[3])
	n := int(session.AsInt(row[2]))
	b.renew(place, tally{
		count: n, from: b.known.zones[b.buckets[place].ZoneID].Term().Since(b.now), until: later(b.now, newest),
		countedAt: b.now, read: n,
	})
	return err
}

// countBounded counts a bucket's txns and reads at most rate index entries, however many txns
// there are: the LIMIT in the derived table bounds it. Txns later than now, which a clock that
// was set back has left, count too.
func (b *batch) countBounded(r *session.Reading, l limit) {
	r.SQL("SELECT COUNT(*), MIN(created_at) FROM (SELECT created_at" + fromCounted)
	r.Keys([]service.Bucket{l.bucket}, nil)
	r.SQL(") AND created_at > ").Instant(l.since).
		SQL(" ORDER BY created_at DESC LIMIT ").Int(int64(l.rate)).SQL(") AS newest;")
	r.Each(2, func(row []driver.Value) error {
		oldest, err := session.AsInstant(row[1])
		state := &b.ledger.Buckets[l.place]
		state.Counted, state.Velocity = nil, &service.Velocity{Count: int(session.AsInt(row[0])), Oldest: oldest}
		return err
	})
}
