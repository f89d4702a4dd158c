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
	checks, err := r.TxnsOfChecks(ctx, []uint64{txn.ID})
	if err != nil {
		return nil, 0, fmt.Errorf("look up the check of txn %d: %w", txn.ID, err)
	}
	ids, of := []uint64{txn.ID}, 1
	for _, t := range checks[txn.ID] {
		if !t.CreatedAt.Equal(txn.CreatedAt) {
			continue // of another check with the same id
		}
		if t.Buckets != nil {
			of = *t.Buckets
		}
		ids = append(ids, t.ID)
	}
	slices.Sort(ids)
	rows, err := byID(ctx, r, Columns, slices.Compact(ids), txnRow.id, instant(txn.CreatedAt))
	if err != nil {
		return nil, 0, fmt.Errorf("read the check of txn %d: %w", txn.ID, err)
	}
	check = slices.DeleteFunc(txnsOf(rows), func(t service.Txn) bool { return !t.CreatedAt.Equal(txn.CreatedAt) })
	slices.SortFunc(check, func(x, y service.Txn) int { return cmp.Compare(x.ID, y.ID) })
	return check, max(0, of-len(check)), nil
}

// Span is a part of a bucket's history: the txns from Since to Until.
type Span struct {
	Bucket       service.Bucket
	Since, Until time.Time
}

// Counted returns the newest txns of a span that count now, at most the given number. Of those behind an instant it
// returns the ones with lower ids than the given one alone: a clock was set back after them.
func (r *Reader) Counted(ctx context.Context, of Span, at time.Time, id uint64, most int) ([]service.Txn, error) {
	return r.ofSpan(ctx, of, most, true, `
   AND (created_at <= ? OR id < ?)`, at, id)
}

// Uncounted returns the txns of a span that do not count now and stopped counting at an instant or later, and those with
// which a lockout began. They are the newest of at most the given number.
func (r *Reader) Uncounted(ctx context.Context, of Span, stopped time.Time, most int) ([]service.Txn, error) {
	return r.ofSpan(ctx, of, most, false, `
   AND (uncounted_at >= ? OR reason = 'lockout')`, stopped)
}

// ofSpan reads the newest txns of a span that fulfil a condition.
func (r *Reader) ofSpan(ctx context.Context, of Span, most int, counted bool, condition string, args ...any) ([]service.Txn, error) {
	args = append([]any{of.Bucket.ZoneID, of.Bucket.Key, counted, of.Since, of.Until}, append(args, most)...)
	var rows []txnRow
	err := r.pool.SelectContext(ctx, &rows, `
SELECT `+Columns+`
  FROM zone_txn FORCE INDEX (zone_txn_window)
 WHERE zone_id = ?
   AND bucket_key = ?
   AND counted = ?
   AND created_at BETWEEN ? AND ?`+condition+`
 ORDER BY created_at DESC, id DESC
 LIMIT ?`, args...)
	if err != nil {
		return nil, fmt.Errorf("read the past of a bucket in zone %d: %w", of.Bucket.ZoneID, session.LookupError(err))
	}
	return txnsOf(rows), nil
}

// Cut returns the instant of the txn of a span behind its newest ones, of those that do not count, or the zero time if
// there are no more. It reads no row, but the index alone.
func (r *Reader) Cut(ctx context.Context, of Span, most int) (time.Time, error) {
	var cut []time.Time
	err := r.pool.SelectContext(ctx, &cut, `
SELECT created_at
  FROM zone_txn FORCE INDEX (zone_txn_window)
 WHERE zone_id = ?
   AND bucket_key = ?
   AND counted = FALSE
   AND created_at BETWEEN ? AND ?
 ORDER BY created_at DESC
 LIMIT 1 OFFSET ?`, of.Bucket.ZoneID, of.Bucket.Key, of.Since, of.Until, most)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the past of a bucket in zone %d: %w", of.Bucket.ZoneID, session.LookupError(err))
	}
	if len(cut) == 0 {
		return time.Time{}, nil
	}
	return cut[0], nil
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
	return service.Txn{ID: first.ID, CreatedAt: first.CreatedAt}, err
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
