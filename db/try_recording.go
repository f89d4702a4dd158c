package db

import (
	"context"

	"velocityd/db/session"
	"velocityd/service"
)

// tryRecording inserts and rolls back rows for the stuck buckets and attempt ids of a batch, before the
// batch locks anything, to learn whether recording still blocks. No other session waits for it meanwhile.
// Checks of buckets that still block are refused as held. The ids of the rolled-back rows are not used
// again. A batch that may not wait tries nothing.
func (s *Store) tryRecording(ctx context.Context, b *batch) error {
	if b.noWait {
		b.locks.leavesAttempts = b.hints.stuck.attempts.lasts()
		return nil
	}
	if err := s.tryTxns(ctx, b); err != nil {
		return err
	}
	return s.tryAttempts(ctx, b)
}

// tryTxns records the batch's stuck buckets and takes that back: a counted txn and one that is
// not for each, since they go to different places of the index.
func (s *Store) tryTxns(ctx context.Context, b *batch) error {
	var stuck []service.Bucket
	for _, bucket := range b.buckets {
		if b.hints.stuck.has(bucket) {
			stuck = append(stuck, bucket)
		}
	}
	if len(stuck) == 0 {
		return nil
	}
	p := new(session.Packet).SQL("INSERT INTO zone_txn (" + txnRowColumns + ") VALUES ")
	for i, bucket := range stuck {
		for counted := range 2 {
			if i+counted > 0 {
				p.SQL(",")
			}
			p.SQL("(UTC_TIMESTAMP(6),").Int(bucket.ZoneID).SQL(",").Quote(bucket.Key).SQL(",0,0,").Int(int64(counted)).SQL(",NULL)")
		}
	}
	waited, err := s.try(ctx, b, p)
	switch {
	case err != nil:
		return err
	case waited:
		b.hints.stuck.waited(stuck...)
	default:
		b.hints.stuck.recorded(stuck...)
	}
	return nil
}

// tryAttempts records the batch's attempt ids and takes that back, if attempt ids are stuck.
// Those that are remembered stay as they are.
func (s *Store) tryAttempts(ctx context.Context, b *batch) error {
	if len(b.attemptIDs) == 0 || !b.hints.stuck.attempts.lasts() {
		return nil
	}
	p := new(session.Packet).SQL("INSERT IGNORE INTO zone_attempt (attempt_id, created_at, expires_at, answer) VALUES ")
	for i, id := range b.attemptIDs {
		if i > 0 {
			p.SQL(",")
		}
		p.SQL("(").Quote(id).SQL(",UTC_TIMESTAMP(6),UTC_TIMESTAMP(6) + INTERVAL 600 SECOND,'[]')")
	}
	waited, err := s.try(ctx, b, p)
	if waited {
		b.hints.stuck.attempts.begin()
		b.locks.leavesAttempts = true
	}
	return err
}

// try carries out an INSERT and takes it back. waited says that the INSERT timed out on a lock.
func (s *Store) try(ctx context.Context, b *batch, insert *session.Packet) (waited bool, err error) {
	text := "START TRANSACTION; " + string(insert.Text) + "; ROLLBACK"
	if int64(len(text)) >= b.conn.MaxPacket {
		return false, session.ErrTooLong
	}
	_, err = b.conn.ExecContext(ctx, text, nil)
	if !session.IsNumber(err, session.NumberLockWait) {
		return false, err
	}
	s.note(session.LockWaitTimeout)
	return true, b.roll(ctx)
}
