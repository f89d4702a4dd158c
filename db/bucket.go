package db

import (
	"context"
	"errors"
	"fmt"

	"velocityd/db/session"
	"velocityd/service"
)

// Peek returns what a check would find in a bucket now, and the bucket's newest txns.
// It records no attempt, takes no lock and makes no row. The error wraps
// service.ErrNotFound for an unknown zone, service.ErrInvalid for a bad key, and
// service.ErrBusy if the engine is away.
func (s *Store) Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error) {
	if err := bucket.Validate(); err != nil {
		return service.Peek{}, err
	}
	d, err := s.dialect(ctx)
	if err != nil {
		return service.Peek{}, err
	}
	peek, err := d.peek(ctx, s, bucket)
	if err != nil {
		return service.Peek{}, err
	}
	if peek.Txns, err = s.newestTxns(ctx, bucket); err != nil || peek.Override == nil {
		return peek, err
	}
	// All of the override, which may have gone meanwhile.
	switch override, err := s.Override(ctx, bucket.ZoneID, peek.Override.ID); {
	case err == nil:
		peek.Override = &override
	case errors.Is(err, service.ErrNotFound):
		peek.Override = nil
	default:
		return service.Peek{}, err
	}
	return peek, nil
}

// newestTxns returns the newest txns of a bucket. The index has counted before created_at, so
// it reads the newest of those that count and of those that do not, and merges them.
func (s *Store) newestTxns(ctx context.Context, bucket service.Bucket) ([]service.Txn, error) {
	part := `(
SELECT ` + txnColumns + `
  FROM zone_txn
 WHERE zone_id = ?
   AND bucket_key = ?
   AND counted = ?
 ORDER BY created_at DESC, id DESC
 LIMIT ?)`
	isOfBucket := func(row txnRow) bool { return row.ZoneID == bucket.ZoneID && row.Key == bucket.Key }
	rows, err := session.SelectFitting(ctx, s.pool, isOfBucket, part+` UNION ALL `+part+`
 ORDER BY created_at DESC, id DESC
 LIMIT ?`,
		bucket.ZoneID, bucket.Key, true, service.PeekTxns,
		bucket.ZoneID, bucket.Key, false, service.PeekTxns, service.PeekTxns)
	if err != nil {
		return nil, fmt.Errorf("newest txns of a bucket in zone %d: %w", bucket.ZoneID, session.LookupError(err))
	}
	txns := make([]service.Txn, len(rows))
	for i, row := range rows {
		txns[i] = row.txn()
	}
	return txns, nil
}

// Release ends a bucket's lockout, forgets how long lockouts had grown, and makes the txns
// that count in its window count no longer. principal and reason go to zone_audit. The error
// wraps service.ErrNotFound for an unknown zone, service.ErrInvalid for a bad key or text,
// service.ErrBusy if nothing was released, and service.ErrUndecided if nobody can know; releasing
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
