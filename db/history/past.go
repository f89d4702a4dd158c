package history

import (
	"cmp"
	"context"
	"database/sql/driver"
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
	// Of another check with the same id.
	rows = slices.DeleteFunc(rows, func(t Row) bool { return !t.CreatedAt.Equal(txn.CreatedAt.Time) })
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

// Newest returns the newest txns of a span, at most the given number, and the instant of the one behind them, or the
// zero time if there is none. Of txns with later instants than a txn it returns those with lower ids alone: a clock was
// set back after them.
func (r *Reader) Newest(
	ctx context.Context, of Span, upTo service.Txn, most int,
) (txns []service.Txn, cut time.Time, err error) {
	p := new(session.Packet)
	p.SQL("SELECT " + Columns + " FROM zone_txn FORCE INDEX (zone_txn_window)").WhereBucket(of.Bucket).
		SQL(" AND counted = ").Bool(of.IsCounted).SQL(" AND created_at BETWEEN ").Instant(of.Since).SQL(" AND ").Instant(
		of.Until).
		SQL(" AND (created_at <= ").Instant(upTo.CreatedAt.Time).SQL(" OR id < ").Uint(upTo.ID)
	rows, err := r.rows(ctx, p.SQL(") ORDER BY created_at DESC, id DESC LIMIT ").Int(int64(most+1)))
	if err != nil {
		return nil, cut, fmt.Errorf("read the past of a bucket in zone %d: %w", of.Bucket.ZoneID, session.LookupError(err))
	}
	if len(rows) > most {
		cut, rows = rows[most].CreatedAt.Time, rows[:most]
	}
	return txnsOf(rows), cut, nil
}

// Lockout returns the last lockout of a bucket, or the zero Lockout.
func (r *Reader) Lockout(ctx context.Context, bucket service.Bucket) (lockout service.Lockout, err error) {
	p := new(session.Packet).SQL("SELECT " + LockoutColumns + " FROM zone_bucket_lock").WhereBucket(bucket)
	err = r.each(ctx, 3, p, func(row []driver.Value) (err error) {
		lockout, err = LockoutOf(row)
		return err
	})
	if err != nil {
		return service.Lockout{}, fmt.Errorf("read the lockout of a bucket in zone %d: %w", bucket.ZoneID,
			session.LookupError(err))
	}
	return lockout, nil
}

// LockoutColumns are those of zone_bucket_lock that LockoutOf reads.
const LockoutColumns = "locked_until, lockout_us, lockout_shadow"

// LockoutOf reads LockoutColumns. Without an end there is no lockout.
func LockoutOf(columns []driver.Value) (l service.Lockout, err error) {
	if l.Until, err = session.AsInstant(columns[0]); err != nil || l.Until.IsZero() {
		return service.Lockout{}, err
	}
	l.Length, l.Shadow = time.Duration(session.AsInt(columns[1]))*time.Microsecond, session.AsInt(columns[2]) != 0
	return l, nil
}

// Oldest returns the id and the instant of the txn with the lowest id, or the zero Txn if there is none.
func (r *Reader) Oldest(ctx context.Context) (service.Txn, error) {
	first, _, err := r.next(ctx, 1, 1<<63)
	return service.Txn{ID: first.ID, CreatedAt: service.At(first.CreatedAt)}, err
}

// Neighbours returns the attempts of a txn's bucket before and after it, or nil. The one after it must be
// service.HistoryLag old.
func (r *Reader) Neighbours(ctx context.Context, txn service.Txn) (previous, next *service.Txn, err error) {
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
