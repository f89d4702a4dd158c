package db

import (
	"context"
	"errors"
	"fmt"

	"velocityd/db/session"
	"velocityd/service"
)

// Peek returns the state in which a check would find a bucket now, and the bucket's newest txns.
// It records no attempt, takes no lock and makes no row. The error wraps
// service.ErrNotFound for an unknown zone, service.ErrInvalid for a bad key, and
// service.ErrBusy if the engine is away.
func (s *Store) Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error) {
	if err := bucket.Validate(); err != nil {
		return service.Peek{}, err
	}
	var peek service.Peek
	err := s.onBuckets(ctx, "peek", session.LookupError, []service.Bucket{bucket},
		func(ctx context.Context, e bucketWork) (err error) {
			peek, err = e.look(ctx, bucket)
			return session.Unrecorded(err)
		})
	if err != nil {
		return service.Peek{}, err
	}
	newest, err := s.History.History(ctx, service.HistoryQuery{
		Zones: []int64{bucket.ZoneID}, Keys: []string{bucket.Key}, Order: service.NewestFirst, Limit: service.PeekTxns,
	})
	if peek.Txns = newest.Txns; err != nil || peek.Override == nil {
		return peek, err
	}
	// All of the override, which may have gone meanwhile.
	switch override, err := s.Records.Override(ctx, bucket.ZoneID, peek.Override.ID); {
	case err == nil:
		peek.Override = &override
	case errors.Is(err, service.ErrNotFound):
		peek.Override = nil
	default:
		return service.Peek{}, err
	}
	return peek, nil
}

// look reads the rows that a decision about a bucket depends on, without a lock.
func (e bucketWork) look(ctx context.Context, bucket service.Bucket) (service.Peek, error) {
	var r session.Reading
	e.readSettings(&r)
	e.lock(&r, e.buckets, ";") // without FOR UPDATE it only reads
	if err := e.send(ctx, &r); err != nil {
		return service.Peek{}, err
	}
	if err := e.readExceptions(ctx, e.zoneIDs); err != nil {
		return service.Peek{}, err
	}
	zone := e.ledger.Zones[bucket.ZoneID]
	o := e.exception(bucket)
	l := limit{bucket: bucket, rate: zone.Rate, since: zone.TermUnder(o).Since(e.now)}
	if o != nil && o.Action == service.OverrideLimit {
		l.rate = o.Rate
	}
	var counts session.Reading
	e.countBounded(&counts, l)
	e.known.supposed = e.now
	e.listOpen(&counts)
	if err := counts.Send(ctx, e.conn); err != nil {
		return service.Peek{}, err
	}
	return service.NewPeek(e.now, e.ledger, bucket)
}

// Release ends a bucket's lockout, forgets how long lockouts had grown, and makes the txns
// that count in its window count no longer. principal and reason go to zone_audit. The error
// wraps service.ErrNotFound for an unknown zone, service.ErrInvalid for a bad key or text,
// service.ErrBusy if nothing was released, and service.ErrUndecided if that is not known; releasing
// again is harmless.
func (s *Store) Release(ctx context.Context, bucket service.Bucket, principal, reason string) error {
	if err := bucket.Validate(); err != nil {
		return err
	}
	d, err := s.dialect(ctx)
	if err != nil {
		return err
	}
	if err := d.release(ctx, s, bucket, principal, reason); err != nil {
		return fmt.Errorf("release a bucket of zone %d: %w", bucket.ZoneID, err)
	}
	return nil
}
