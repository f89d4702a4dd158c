package history

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/service"
)

// Row is a row of zone_txn.
type Row struct {
	service.Txn
	// Buckets is how many txns its check has, or 0 for a check of one bucket. They have ids close to each other: there is
	// no index on check_id.
	Buckets int
}

// Columns are those of a Row, which RowOf reads.
const Columns = "id, created_at, zone_id, bucket_key, blocked, would_block, counted, outcome, attempt_id, reason, " +
	"override_id, 1 + COALESCE(repeats, 0) AS attempts, COALESCE(repeated_at, created_at) AS last_at, uncounted_at, " +
	"COALESCE(check_id, 0) AS check_id, COALESCE(check_buckets, 0) AS check_buckets"

// NumColumns is how many they are.
const NumColumns = 16

func txnsOf(rows []Row) []service.Txn {
	txns := make([]service.Txn, len(rows))
	for i, row := range rows {
		txns[i] = row.Txn
	}
	return txns
}

// RowOf reads a row of Columns as the driver gives it.
func RowOf(row []driver.Value) (r Row, err error) {
	r.Txn = service.Txn{
		ID: uint64(session.AsInt(row[0])), Bucket: service.Bucket{ZoneID: session.AsInt(row[2]), Key: session.Text(row[3])},
		Blocked: session.AsInt(row[4]) != 0, WouldBlock: session.AsInt(row[5]) != 0, Counted: session.AsInt(row[6]) != 0,
		Outcome: service.Outcome(session.Text(row[7])), AttemptID: session.Text(row[8]),
		Reason: service.Reason(session.Text(row[9])), OverrideID: uint64(session.AsInt(row[10])),
		Attempts: int(session.AsInt(row[11])),
		CheckID:  uint64(session.AsInt(row[14])),
	}
	r.Buckets = int(session.AsInt(row[15]))
	for place, instant := range map[int]*time.Time{1: &r.CreatedAt.Time, 12: &r.LastAt.Time, 13: &r.UncountedAt.Time} {
		if *instant, err = session.AsInstant(row[place]); err != nil {
			return r, err
		}
	}
	return r, nil
}

// rows reads the rows that a SELECT of Columns finds.
func (r *Reader) rows(ctx context.Context, p *session.Packet) (rows []Row, err error) {
	err = r.each(ctx, NumColumns, p, func(values []driver.Value) error {
		row, err := RowOf(values)
		rows = append(rows, row)
		return err
	})
	return rows, err
}

// each has read called with every row of a SELECT, which has so many columns.
func (r *Reader) each(ctx context.Context, columns int, p *session.Packet, read func([]driver.Value) error) error {
	return r.pool.On(ctx, func(conn *sqlx.Conn) error {
		own, err := session.Of(conn.Conn)
		if err != nil {
			return err
		}
		return own.Each(ctx, columns, string(p.Text), read)
	})
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
	return rows[0].Txn, nil
}
