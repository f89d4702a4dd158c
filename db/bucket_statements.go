package db

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

func (portableDialect) release(ctx context.Context, s *Store, bucket service.Bucket, principal, reason string) error {
	if err := service.ValidateRelease(principal, reason); err != nil {
		return err
	}
	return s.onBuckets(ctx, "release", byFault, []service.Bucket{bucket}, func(ctx context.Context, e bucketWork) error {
		isSeen, err := e.isSeen(ctx, bucket)
		if err != nil {
			return session.Unrecorded(err)
		}
		account, ended, err := e.prepareRelease(ctx, bucket, isSeen)
		if err != nil {
			return session.Unrecorded(err)
		}
		return e.commit(ctx, func(p *session.Packet) {
			e.auditRelease(p, bucket, account, principal, reason)
			e.tellRelease(p, bucket, ended, account, principal, reason)
			if isSeen {
				e.release(p, bucket)
			}
		})
	})
}

// isSeen says that the bucket has a lock row, or txns that may count though the row was deleted. Otherwise
// there is nothing to release, and no row is made.
func (e bucketWork) isSeen(ctx context.Context, bucket service.Bucket) (isSeen bool, err error) {
	var r session.Reading
	note := func([]driver.Value) error {
		isSeen = true
		return nil
	}
	r.SQL("SELECT 1 FROM zone_bucket_lock").WhereBucket(bucket).SQL(" LIMIT 1;")
	r.Each(1, note)
	r.SQL("SELECT 1 FROM zone_txn").WhereBucket(bucket).SQL(
		" AND counted = TRUE AND created_at > UTC_TIMESTAMP(6) - INTERVAL ").
		Int(int64(service.MaxWindow / time.Second)).SQL(" SECOND LIMIT 1;")
	r.Each(1, note)
	return isSeen, r.Send(ctx, e.conn)
}

// prepareRelease opens the transaction, locks the bucket if it was seen, and reads its zone, its overrides, its lockout
// in zone_lockout and the account of the session. The error wraps service.ErrNotFound for an unknown zone, and
// service.ErrInvalid for a clear key in a zone with key_form hmac.
func (e bucketWork) prepareRelease(
	ctx context.Context, bucket service.Bucket, isSeen bool,
) (account string, ended standing, err error) {
	var r session.Reading
	e.open(&r)
	// Vitess commits on its servers in the order in which a transaction came to them. If it ends
	// half-way, there is an audit of a release that did not happen, and no release without an audit.
	r.SQL("SELECT version FROM schema_migrations;")
	r.Skip()
	if isSeen {
		e.makeRows(&r, e.buckets)
	}
	e.readSettings(&r)
	e.lock(&r, e.buckets, ";")
	e.readStanding(&r, bucket, &ended)
	// Without a table, so that vtgate answers with the account that it knows.
	r.SQL("SELECT SESSION_USER();")
	r.Each(1, func(row []driver.Value) error {
		account = session.Text(row[0])
		return nil
	})
	if err := e.send(ctx, &r); err != nil {
		return "", standing{}, err
	}
	if _, exists := e.ledger.Zones[bucket.ZoneID]; !exists {
		return "", standing{}, fmt.Errorf("zone %d: %w", bucket.ZoneID, service.ErrNotFound)
	}
	if err := service.StaleKey(e.ledger.Zones, e.checks); err != nil {
		return "", standing{}, err
	}
	return account, ended, e.readExceptions(ctx, e.zoneIDs)
}

// auditRelease writes the row of zone_audit, as the procedure release_bucket does.
func (e bucketWork) auditRelease(p *session.Packet, bucket service.Bucket, account, principal, reason string) {
	p.SQL("INSERT INTO zone_audit (changed_at, changed_by, principal, subject, action, zone_id, state_after) VALUES (").
		Instant(e.now).SQL(",").Quote(account).SQL(",").OrNull(principal).SQL(",'bucket','release',").Int(bucket.ZoneID).
		SQL(",JSON_OBJECT('bucket_key',").Quote(bucket.Key).SQL(",'reason',").Quote(reason).SQL("));")
}

// release writes that the bucket's txns do not count any more, and that it has no lockout.
func (e bucketWork) release(p *session.Packet, bucket service.Bucket) {
	since := service.UncountSince(e.now, e.ledger.Zones[bucket.ZoneID], e.exception(bucket))
	e.uncount(p, bucket, since)
	e.forgetTally(p, bucket, since)
	p.SQL("UPDATE zone_bucket_lock SET locked_until = NULL, lockout_us = 0").WhereBucket(bucket).SQL(";")
}
