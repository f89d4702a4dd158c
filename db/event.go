package db

import (
	"database/sql/driver"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/event"
)

// eventInstant is the form of an instant in the data of events.
const eventInstant = "2006-01-02T15:04:05.000000Z"

const insertEvents = "INSERT INTO zone_event (created_at, type, zone_id, bucket_key, txn_id, data) VALUES "

// tell writes the lockouts that begin into zone_lockout and zone_event, as the procedure begin_lockout does, and
// reports whether there are any. It stands behind all else that names LAST_INSERT_ID(), which the events change.
func (b *batch) tell(p *session.Packet, ruling *service.Ruling) bool {
	begun := ruling.Locked()
	if len(begun) == 0 {
		return false
	}
	p.SQL("INSERT INTO zone_lockout (zone_id, bucket_key, locked_at, locked_until, txn_id) VALUES ")
	for i, l := range begun {
		p.SQL(","[:min(i, 1)] + "(").Int(l.Bucket.ZoneID).SQL(",").Quote(l.Bucket.Key).SQL(",").Instant(b.now).SQL(
			",").Instant(l.Until).SQL(",")
		b.txnID(p, l.TxnID)
		p.SQL(")")
	}
	// The clock may have been set back to the very microsecond.
	p.SQL(" ON DUPLICATE KEY UPDATE locked_until = VALUES(locked_until);" + insertEvents)
	for i, l := range begun {
		p.SQL(","[:min(i, 1)] + "(").Instant(b.now).SQL(",'" + string(event.BucketLocked) + "',").Int(l.Bucket.ZoneID).SQL(
			",").
			Quote(l.Bucket.Key).SQL(",")
		b.txnID(p, l.TxnID)
		p.SQL(",JSON_OBJECT('locked_until','" + l.Until.UTC().Format(eventInstant) + "','reason','" +
			string(service.ReasonLockout) + "'))")
	}
	p.SQL(";")
	return true
}

// standing is a row of zone_lockout whose lockout has not ended. Its zero value is none.
type standing struct {
	lockedAt time.Time
	txnID    uint64
}

// readStanding reads and locks the row of a bucket whose lockout ends after the engine's present time, if there is one.
func (e bucketWork) readStanding(r *session.Reading, bucket service.Bucket, into *standing) {
	r.SQL("SELECT locked_at, txn_id FROM zone_lockout").WhereBucket(bucket).SQL(
		" AND locked_until > UTC_TIMESTAMP(6) FOR UPDATE;")
	r.Each(2, func(row []driver.Value) (err error) {
		into.txnID = uint64(session.AsInt(row[1]))
		into.lockedAt, err = session.AsInstant(row[0])
		return err
	})
}

// tellRelease writes the events of a release, as the trigger zone_audit_after_insert and the procedure release_lockout
// do, and ends a lockout that stands.
func (e bucketWork) tellRelease(
	p *session.Packet, bucket service.Bucket, ended standing, account, principal, reason string,
) {
	now := e.now.UTC().Format(eventInstant)
	p.SQL(insertEvents + "(").Instant(e.now).SQL(",'" + string(event.BucketReleased) + "',").Int(bucket.ZoneID).SQL(
		",").Quote(bucket.Key).
		SQL(",NULL,JSON_OBJECT('by',").OrNull(principal).SQL(",'account',").Quote(account).SQL(",'reason',").Quote(
		reason).SQL("))")
	if ended.lockedAt.IsZero() {
		p.SQL(";")
		return
	}
	p.SQL(",(").Instant(e.now).SQL(",'" + string(event.BucketLockEnded) + "',").Int(bucket.ZoneID).SQL(",").Quote(
		bucket.Key).SQL(",").
		IDOrNull(ended.txnID).SQL(",JSON_OBJECT('locked_at','" + ended.lockedAt.Format(eventInstant) + "','ended_at','" +
		now + "','cause','release'));")
	p.SQL("DELETE FROM zone_lockout").WhereBucket(bucket).SQL(" AND locked_at = ").Instant(ended.lockedAt).SQL(";")
}
