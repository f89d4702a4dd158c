package retention

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/service/event"
)

// mostLockouts is how many ends of lockouts one batch notes.
const mostLockouts = 250

// endedLockouts notes the ends of lockouts that have ended by time.
func endedLockouts(every time.Duration) batches {
	return batches{
		"ended_lockouts", every, endLockouts,
		expect("lockouts that have ended", "zone_lockout WHERE locked_until <= ?", 0),
	}
}

// lockoutsEnd says whether a lockout has ended, by the first entry of an index: for a turn every few seconds.
func lockoutsEnd(ctx context.Context, from session.Reader) (bool, error) {
	var ended []int
	err := from.SelectContext(ctx, &ended, `
SELECT 1
  FROM zone_lockout
 WHERE locked_until <= UTC_TIMESTAMP(6)
 LIMIT 1`)
	return len(ended) > 0, err
}

// lockoutRow is a row of zone_lockout.
type lockoutRow struct {
	ZoneID int64     `db:"zone_id"`
	Key    string    `db:"bucket_key"`
	From   time.Time `db:"locked_at"`
	Until  time.Time `db:"locked_until"`
	TxnID  uint64    `db:"txn_id"`
}

// lockEnded is the data of an event. The procedure end_lockouts writes the same.
type lockEnded struct {
	LockedAt time.Time `json:"locked_at"`
	EndedAt  time.Time `json:"ended_at"`
	Cause    string    `json:"cause"` // or release, by which another transaction ends one
}

// endLockouts deletes some rows of zone_lockout that have ended, the first ones first, and writes an event for each in
// the same transaction. On Vitess that may end half-way, but the row of a lockout and its event are on one shard.
func endLockouts(ctx context.Context, on *sqlx.Conn, _ string) (r Result, err error) {
	var rows []lockoutRow
	if err := on.SelectContext(ctx, &rows, `
SELECT zone_id, bucket_key, locked_at, locked_until, txn_id
  FROM zone_lockout
 WHERE locked_until <= UTC_TIMESTAMP(6)
 ORDER BY locked_until
 LIMIT ?`, mostLockouts); err != nil || len(rows) == 0 {
		return r, err
	}
	tx, err := on.BeginTxx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return r, err
	}
	defer func() { _ = tx.Rollback() }() // which does nothing after the commit
	for _, row := range rows {
		ended, err := row.end(ctx, tx)
		if err != nil {
			return Result{}, err
		}
		r.Removed += ended
	}
	r.Backlog = len(rows) == mostLockouts
	return r, tx.Commit()
}

// end deletes the row unless a release has done so, and returns how many rows that were.
func (l lockoutRow) end(ctx context.Context, tx *sqlx.Tx) (ended int64, err error) {
	result, err := tx.ExecContext(ctx, `
DELETE FROM zone_lockout
 WHERE zone_id = ?
   AND bucket_key = ?
   AND locked_at = ?
   AND locked_until = ?`, l.ZoneID, l.Key, l.From, l.Until)
	if err != nil {
		return 0, err
	}
	if ended, err = result.RowsAffected(); err != nil || ended == 0 {
		return 0, err
	}
	data, err := json.Marshal(lockEnded{l.From, l.Until, "time"})
	if err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, `
INSERT INTO zone_event (created_at, type, zone_id, bucket_key, txn_id, data)
VALUES (UTC_TIMESTAMP(6), ?, ?, ?, ?, ?)`, string(event.BucketLockEnded), l.ZoneID, l.Key, l.TxnID, string(data))
	return ended, err
}
