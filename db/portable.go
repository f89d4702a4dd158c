package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

// portableDialect has the methods that engines without procedures have in common. Reports and releases are
// statements in a batch: see bucket_work.go.
type portableDialect struct{}

// lacking returns all places: a row that another session holds or makes cannot be told from none.
func (portableDialect) lacking(_ context.Context, _ *batch, places []int) ([]int, error) {
	return places, nil
}

func (portableDialect) decideAlone(context.Context, *session.Conn, service.Check, bool) (service.Decision, error) {
	return service.Decision{}, errNoProcedure
}

func (portableDialect) attemptColumns() string {
	return "attempt_id, bucket_key, created_at, expires_at, answer"
}

// writeAttemptBucket writes the key of the bucket whose shard remembers the attempt.
func (portableDialect) writeAttemptBucket(b *batch, p *session.Packet, check service.Check) {
	p.Quote(b.attemptBucket(check).Key).SQL(",")
}

func (portableDialect) repeat(b *batch, p *session.Packet, ruling *service.Ruling) (statements int) {
	for _, r := range ruling.Repeats {
		p.SQL("UPDATE zone_txn FORCE INDEX (PRIMARY) SET repeats = COALESCE(repeats, 0) + ").Int(int64(r.Count)).
			SQL(", repeated_at = ").Instant(b.now).WhereBucket(r.Bucket).
			SQL(" AND id = ").Uint(r.TxnID)
		p.SQL(" AND created_at = ").Instant(r.TxnAt).SQL(" AND blocked = TRUE;")
	}
	return len(ruling.Repeats)
}

func (portableDialect) forget(b *batch, p *session.Packet, ids []string) {
	p.SQL("DELETE FROM zone_attempt WHERE ")
	b.attemptsIn(p, ids)
	p.SQL(" AND expires_at <= ").Instant(b.now).SQL(";")
}

// record tells an error of the COMMIT, which can fail half-way, from one of the statements before it,
// after which nothing was recorded.
func (portableDialect) record(
	ctx context.Context, b *batch, r *session.Reading, _ int, ruling *service.Ruling,
) (first uint64, err error) {
	r.SQL("SELECT LAST_INSERT_ID();")
	r.Each(1, func(row []driver.Value) error {
		first = uint64(session.AsInt(row[0]))
		return nil
	})
	if b.tell(&r.Packet, ruling) { // behind LAST_INSERT_ID(), which is that of the event then
		r.SQL("SELECT 1;")
		r.Skip()
	}
	return first, b.commitApart(ctx, r)
}

func (portableDialect) try(context.Context, *session.Conn, way) error { return nil }

func (portableDialect) writeTrial(b *batch, p *session.Packet) {
	for _, bucket := range b.buckets {
		failed := service.Txn{Bucket: bucket, CreatedAt: service.At(b.now), Outcome: service.OutcomeFailure}
		txn := service.SettledTxn{Txn: failed, GivenBack: true}
		bucketWork{b}.record(p, []service.SettledTxn{txn}, map[service.Bucket]time.Time{bucket: b.now})
	}
}

// commitApart sends a packet that records something and ends in a SELECT, and commits. That
// SELECT tells an error of the COMMIT from one before it.
func (b *batch) commitApart(ctx context.Context, r *session.Reading) error {
	b.reset(&r.Packet)
	r.SQL("COMMIT")
	switch err := r.Send(ctx, b.conn); {
	case err == nil, session.IsLost(err), errors.Is(err, session.ErrTooLong):
		return err
	case r.Answered < len(r.Readers):
		return session.Unrecorded(err)
	case session.IsOneOf(err, session.RolledBack()):
		return err
	default:
		return session.Uncertain(err)
	}
}
