package history

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

// Check returns all txns of the check of a txn that are still there, by id, and how many are not. The error wraps
// service.ErrBusy if the engine is away.
func (r *Reader) Check(ctx context.Context, txn service.Txn) (check []service.Txn, missing int, err error) {
	rows, err := r.byID(ctx, []uint64{txn.ID}, instant(txn.CreatedAt.Time))
	if err != nil {
		return nil, 0, fmt.Errorf("read txn %d again: %w", txn.ID, err)
	}
	rows = slices.DeleteFunc(rows, func(t Row) bool { return !t.CreatedAt.Equal(txn.CreatedAt.Time) }) // of another check with the same id
	if txn.CheckID != 0 {
		checks, err := r.siblings(ctx, rows)
		if err != nil {
			return nil, 0, fmt.Errorf("read the check of txn %d: %w", txn.ID, err)
		}
		for _, rows = range checks {
			missing = max(0, rows[0].Buckets-len(rows))
		}
	}
	slices.SortFunc(rows, func(x, y Row) int { return cmp.Compare(x.ID, y.ID) })
	return txnsOf(rows), missing, nil
}

// Span is a part of a bucket's history: the txns from Since to Until that count now, or those that do not.
type Span struct {
	Bucket       service.Bucket
	IsCounted    bool
	Since, Until time.Time
}

// Newest returns the newest txns of a span, at most the given number, and the instant of the one behind them, or the zero
// time if there is none. Of txns with later instants than a txn it returns those with lower ids alone: a clock was set back
// after them.
func (r *Reader) Newest(ctx context.Context, of Span, upTo service.Txn, most int) (txns []service.Txn, cut time.Time, err error) {
	var rows []Row
	err = r.pool.SelectContext(ctx, &rows, `
SELECT `+Columns+`
  FROM zone_txn FORCE INDEX (zone_txn_window)
 WHERE zone_id = ?
   AND bucket_key = ?
   AND counted = ?
   AND created_at BETWEEN ? AND ?
   AND (created_at <= ? OR id < ?)
 ORDER BY created_at DESC, id DESC
 LIMIT ?`, of.Bucket.ZoneID, of.Bucket.Key, of.IsCounted, of.Since, of.Until, upTo.CreatedAt.Time, upTo.ID, most+1)
	if err != nil {
		return nil, cut, fmt.Errorf("read the past of a bucket in zone %d: %w", of.Bucket.ZoneID, session.LookupError(err))
	}
	if len(rows) > most {
		cut, rows = rows[most].CreatedAt, rows[:most]
	}
	return txnsOf(rows), cut, nil
}

// Lockout returns the last lockout of a bucket, or the zero Lockout.
func (r *Reader) Lockout(ctx context.Context, bucket service.Bucket) (service.Lockout, error) {
	var rows []struct {
		Until  sql.Null[time.Time] `db:"locked_until"`
		Length int64               `db:"lockout_us"`
		Shadow bool                `db:"lockout_shadow"`
	}
	err := r.pool.SelectContext(ctx, &rows, `
SELECT locked_until, lockout_us, lockout_shadow
  FROM zone_bucket_lock
 WHERE zone_id = ?
   AND bucket_key = ?`, bucket.ZoneID, bucket.Key)
	switch {
	case err != nil:
		return service.Lockout{}, fmt.Errorf("read the lockout of a bucket in zone %d: %w", bucket.ZoneID, session.LookupError(err))
	case len(rows) == 0 || !rows[0].Until.Valid:
		return service.Lockout{}, nil
	}
	return service.Lockout{
		Until: rows[0].Until.V, Length: time.Duration(rows[0].Length) * time.Microsecond, Shadow: rows[0].Shadow,
	}, nil
}

// Oldest returns the id and the instant of the txn with the lowest id, or the zero Txn if there is none.
func (r *Reader) Oldest(ctx context.Context) (service.Txn, error) {
	first, _, err := r.next(ctx, 1, 1<<63)
	return service.Txn{ID: first.ID, CreatedAt: service.At(first.CreatedAt)}, err
}

// Beside returns the attempts of a txn's bucket before and after it, or nil. The one after it must be
// service.HistoryLag old.
func (r *Reader) Beside(ctx context.Context, txn service.Txn) (previous, next *service.Txn, err error) {
	for _, step := range []struct {
		order service.HistoryOrder
		into  **service.Txn
	}{{service.NewestFirst, &previous}, {service.OldestFirst, &next}} {
		page, err := r.History(ctx, service.HistoryQuery{
			Zones: []int64{txn.Bucket.ZoneID}, Keys: []string{txn.Bucket.Key}, Order: step.order, Cursor: txn.ID, Limit: 1,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("look beside txn %d: %w", txn.ID, err)
		}
		if len(page.Txns) > 0 {
			*step.into = &page.Txns[0]
		}
	}
	return previous, next, nil
}
