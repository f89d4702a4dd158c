package history

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

// Row is a row of zone_txn.
type Row struct {
	ID         uint64           `db:"id"`
	CreatedAt  time.Time        `db:"created_at"`
	ZoneID     int64            `db:"zone_id"`
	Key        string           `db:"bucket_key"`
	Blocked    bool             `db:"blocked"`
	WouldBlock bool             `db:"would_block"`
	Reason     sql.Null[string] `db:"reason"`
	OverrideID sql.Null[uint64] `db:"override_id"`
	Counted    bool             `db:"counted"`
	Outcome    sql.Null[string] `db:"outcome"`
	AttemptID  sql.Null[string] `db:"attempt_id"`
	Attempts   int              `db:"attempts"`
	LastAt     time.Time        `db:"last_at"`
	// CheckID and Buckets tie the row to the others of its check, which have ids close to each other: there is no index on
	// check_id. Both are 0 for a check of one bucket.
	CheckID uint64 `db:"check_id"`
	Buckets int    `db:"check_buckets"`
	// UncountedAt is nil for a txn that counts, or never did.
	UncountedAt sql.Null[time.Time] `db:"uncounted_at"`
}

// Columns are those of a Row, of which TxnOf makes a txn.
const Columns = "id, created_at, zone_id, bucket_key, blocked, would_block, counted, outcome, attempt_id, reason, override_id, " +
	"1 + COALESCE(repeats, 0) AS attempts, COALESCE(repeated_at, created_at) AS last_at, uncounted_at, " +
	"COALESCE(check_id, 0) AS check_id, COALESCE(check_buckets, 0) AS check_buckets"

// NumColumns is how many they are.
const NumColumns = 16

// Bucket returns the bucket of the row.
func (r Row) Bucket() service.Bucket { return service.Bucket{ZoneID: r.ZoneID, Key: r.Key} }

func (r Row) txn() service.Txn {
	return service.Txn{
		ID: r.ID, Bucket: r.Bucket(), CreatedAt: service.At(r.CreatedAt),
		Blocked: r.Blocked, WouldBlock: r.WouldBlock, Reason: service.Reason(r.Reason.V), OverrideID: r.OverrideID.V, Counted: r.Counted,
		Outcome: service.Outcome(r.Outcome.V), AttemptID: r.AttemptID.V, Attempts: r.Attempts, LastAt: service.At(r.LastAt),
		UncountedAt: service.At(r.UncountedAt.V), CheckID: r.CheckID,
	}
}

// txnsOf returns the txns of rows.
func txnsOf(rows []Row) []service.Txn {
	txns := make([]service.Txn, len(rows))
	for i, row := range rows {
		txns[i] = row.txn()
	}
	return txns
}

// TxnOf returns the txn of a row of Columns that was read as the driver gives it.
func TxnOf(row []driver.Value) (txn service.Txn, err error) {
	txn = service.Txn{
		ID: uint64(session.AsInt(row[0])), Bucket: service.Bucket{ZoneID: session.AsInt(row[2]), Key: session.Text(row[3])},
		Blocked: session.AsInt(row[4]) != 0, WouldBlock: session.AsInt(row[5]) != 0, Counted: session.AsInt(row[6]) != 0,
		Outcome: service.Outcome(session.Text(row[7])), AttemptID: session.Text(row[8]),
		Reason: service.Reason(session.Text(row[9])), OverrideID: uint64(session.AsInt(row[10])), Attempts: int(session.AsInt(row[11])),
		CheckID: uint64(session.AsInt(row[14])),
	}
	if txn.CreatedAt.Time, err = session.AsInstant(row[1]); err != nil {
		return txn, err
	}
	if txn.LastAt.Time, err = session.AsInstant(row[12]); err != nil || row[13] == nil {
		return txn, err
	}
	txn.UncountedAt.Time, err = session.AsInstant(row[13])
	return txn, err
}

// Txn returns one recorded attempt. The error wraps service.ErrNotFound if
// there is none, and service.ErrBusy if the engine is away.
func (r *Reader) Txn(ctx context.Context, id uint64) (service.Txn, error) {
	rows, err := r.byID(ctx, []uint64{id})
	switch {
	case err != nil:
		return service.Txn{}, fmt.Errorf("read txn %d: %w", id, err)
	case len(rows) == 0:
		return service.Txn{}, fmt.Errorf("txn %d: %w", id, service.ErrNotFound)
	}
	return rows[0].txn(), nil
}
