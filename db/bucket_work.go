package db

import (
	"context"
	"database/sql/driver"
	"time"

	"velocityd/db/records"
	"velocityd/db/session"
	"velocityd/db/zonerow"
	"velocityd/service"
)

// bucketWork is the work of a session on buckets besides checks: it looks into one and, on engines without
// procedures, settles reports or releases a bucket. It locks and reads as a batch does, and its checks
// stand for their buckets alone.
type bucketWork struct{ *batch }

// onBuckets calls do with a bucketWork in these buckets, until ctx ends. It calls again as long as the
// engine's error says that nothing was recorded and that another try may help. The last error is as classify has it.
func (s *Store) onBuckets(
	ctx context.Context, what string, classify func(error) error, buckets []service.Bucket,
	do func(context.Context, bucketWork) error,
) error {
	return s.again(ctx, what, classify, func() error {
		return s.withBatch(ctx, service.Call{Checks: []service.Check{{Buckets: buckets}}},
			func(ctx context.Context, b *batch) error {
				return do(ctx, bucketWork{b})
			})
	})
}

// readSettings reads the engine's clock, and the zones of the buckets as they are now. The clock is that of
// the server that has the zones. It comes from a table that has a row even when all zones are deleted.
func (e bucketWork) readSettings(r *session.Reading) {
	e.now = time.Time{}
	r.SQL("SELECT UTC_TIMESTAMP(6) FROM schema_migrations;")
	r.Each(1, func(row []driver.Value) (err error) {
		e.now, err = session.AsInstant(row[0])
		return err
	})
	r.SQL("SELECT "+records.ZoneColumns+", overridden FROM zone_master FORCE INDEX (PRIMARY) WHERE id IN ").
		List(len(e.zoneIDs), func(i int) { r.Int(e.zoneIDs[i]) }).SQL(";")
	r.Each(len(zonerow.Settings)+2, func(row []driver.Value) error {
		zone := service.Zone{ID: session.AsInt(row[0])}
		rest, fits := zonerow.Settings.Read(&zone, row[1:])
		if !fits {
			return session.ErrMisfit
		}
		e.ledger.Zones[zone.ID] = zone
		e.known.wholeRule = true
		e.known.zones[zone.ID] = lockedZone{Zone: zone, overridden: session.AsInt(rest[0]) != 0}
		return nil
	})
}

// send sends a packet that holds readSettings.
func (e bucketWork) send(ctx context.Context, r *session.Reading) error {
	err := r.Send(ctx, e.conn)
	if err == nil && e.now.IsZero() {
		err = session.ErrNoClock
	}
	return err
}

// readExceptions reads the overrides of the buckets in some zones, whose settings are read. The
// lengths of the networks that an ip zone has overrides of are known only after a first reading.
func (e bucketWork) readExceptions(ctx context.Context, zoneIDs []int64) error {
	clear(e.known.plans)
	for _, id := range zoneIDs {
		e.known.plans[id] = e.planOf(e.known.zones[id], zonePlan{})
	}
	for again := true; again; {
		var r session.Reading
		e.readOverrides(&r)
		if len(r.Readers) == 0 {
			return nil
		}
		if err := r.Send(ctx, e.conn); err != nil {
			return err
		}
		again = false
		for _, id := range zoneIDs {
			had := e.known.plans[id]
			e.known.plans[id] = e.planOf(e.known.zones[id], had)
			again = again || len(e.known.plans[id].lengths) > len(had.lengths)
		}
	}
	return nil
}

// exception returns the override in force for a bucket whose zone's overrides are read, or nil.
func (e bucketWork) exception(bucket service.Bucket) *service.Override {
	return service.InForce(e.now, e.ledger.Zones[bucket.ZoneID], bucket, e.ledger.Overrides)
}

// commit records the statements of write, and commits. If that fails in the COMMIT, the error wraps
// service.ErrUndecided or says that the engine rolled back.
func (e bucketWork) commit(ctx context.Context, write func(*session.Packet)) error {
	var r session.Reading
	r.SQL("RELEASE SAVEPOINT velocityd;") // fails if the transaction is not this one any more
	write(&r.Packet)
	r.SQL("SELECT 1;")
	r.Skip()
	return e.commitApart(ctx, &r)
}

// uncount writes that the txns of a bucket which came after since do not count any more.
func (e bucketWork) uncount(p *session.Packet, bucket service.Bucket, since time.Time) {
	p.SQL("UPDATE zone_txn FORCE INDEX (zone_txn_window) SET counted = FALSE, uncounted_at = ").Instant(e.now).WhereBucket(
		bucket).
		SQL(" AND counted = TRUE AND created_at > ").Instant(since).SQL(";")
}

// forgetTally writes that a bucket has no tally if the one that it has reaches since: it is wrong
// when a txn from then on does not count any more.
func (e bucketWork) forgetTally(p *session.Packet, bucket service.Bucket, since time.Time) {
	if place, _ := e.placeOf(bucket); e.of[place].tally != nil && !e.of[place].tally.until.Before(since) {
		p.SQL("UPDATE zone_bucket_lock SET tally_until = NULL").WhereBucket(bucket).SQL(";")
	}
}
