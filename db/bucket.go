package db

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

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
	engine, err := s.engine(ctx)
	if err != nil {
		return service.Peek{}, err
	}
	look := s.lookInto
	if engine.HasRoutines() {
		look = s.callPeek
	}
	peek, err := look(ctx, bucket)
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

// callPeek is CALL peek_velocity. Of the override in force it returns the id.
func (s *Store) callPeek(ctx context.Context, bucket service.Bucket) (service.Peek, error) {
	peek := service.Peek{Bucket: bucket}
	var window, retryAfter int64
	var lockedUntil sql.Null[time.Time]
	var overrideID sql.Null[uint64]
	var velocity, remaining sql.Null[int]
	var reason sql.Null[service.Reason]
	read := func(rows *sql.Rows) error {
		if !rows.Next() {
			return cmp.Or(rows.Err(), session.ErrMisfit)
		}
		var found service.Bucket
		var ignored any
		err := rows.Scan(&found.ZoneID, &found.Key, &peek.Mode, &peek.Rate, &window, &velocity, &remaining,
			&retryAfter, &lockedUntil, &overrideID, &ignored, &peek.At, &reason)
		if err == nil && found != bucket {
			err = session.ErrMisfit
		}
		return err
	}
	err := s.retry(ctx, "peek", func() error {
		return s.callOnce(ctx, read, "CALL peek_velocity(?, ?)", bucket.ZoneID, bucket.Key)
	}, session.LookupError)
	if err != nil {
		return service.Peek{}, fmt.Errorf("zone %d: %w", bucket.ZoneID, err)
	}
	peek.Window, peek.RetryAfter, peek.LockedUntil = service.Seconds(window), service.Seconds(retryAfter), lockedUntil.V
	peek.Unmetered, peek.Velocity, peek.Remaining, peek.Reason = !velocity.Valid, velocity.V, remaining.V, reason.V
	if overrideID.Valid {
		peek.Override = &service.Override{ID: overrideID.V}
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
	engine, err := s.engine(ctx)
	if err != nil {
		return err
	}
	release := s.setFree
	if engine.HasRoutines() {
		release = s.callRelease
	}
	if err := release(ctx, bucket, principal, reason); err != nil {
		return fmt.Errorf("release a bucket of zone %d: %w", bucket.ZoneID, err)
	}
	return nil
}

// callRelease is CALL release_bucket.
func (s *Store) callRelease(ctx context.Context, bucket service.Bucket, principal, reason string) error {
	name := sql.Null[string]{V: principal, Valid: principal != ""}
	return s.call(ctx, "release", func(rows *sql.Rows) error {
		var found service.Bucket
		if !rows.Next() {
			return cmp.Or(rows.Err(), session.ErrMisfit)
		}
		err := rows.Scan(&found.ZoneID, &found.Key)
		if err == nil && found != bucket {
			err = session.ErrMisfit
		}
		return err
	}, "CALL release_bucket(?, ?, ?, ?)", bucket.ZoneID, bucket.Key, name, reason)
}
