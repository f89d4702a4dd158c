package history

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

// History implements service.HistoryStore. A page of a bucket walks zone_txn_window, one of an attempt id that is still
// remembered reads the txns of its checks, and all others walk the primary key.
func (r *Reader) History(ctx context.Context, q service.HistoryQuery) (service.HistoryPage, error) {
	return r.page(ctx, q, q.Page)
}

// page returns the page that a function makes of the walk of a query.
func (r *Reader) page(
	ctx context.Context, q service.HistoryQuery, of func(iter.Seq2[service.Txn, error]) (service.HistoryPage, error),
) (service.HistoryPage, error) {
	if err := q.Validate(); err != nil {
		return service.HistoryPage{}, err
	}
	var end time.Time // of ascending pages
	if q.Order == service.OldestFirst {
		if err := r.pool.GetContext(ctx, &end, "SELECT UTC_TIMESTAMP(6)"); err != nil {
			return service.HistoryPage{}, fmt.Errorf("read the clock: %w", session.LookupError(err))
		}
		end = end.Add(-service.HistoryLag)
	}
	over, err := r.over(ctx, q, end)
	if err != nil {
		return service.HistoryPage{}, err
	}
	return of(func(yield func(service.Txn, error) bool) {
		for txn, err := range over {
			if err == nil && !end.IsZero() && txn.CreatedAt.After(end) || !yield(txn, err) {
				return
			}
		}
	})
}

// Checks implements service.CheckHistory.
func (r *Reader) Checks(ctx context.Context, q service.HistoryQuery) (service.CheckPage, error) {
	page, err := r.page(ctx, q, q.PageOfChecks)
	if err != nil {
		return service.CheckPage{}, err
	}
	rows := make([]Row, 0, len(page.Txns))
	for _, t := range page.Txns {
		rows = append(rows, Row{Txn: t})
	}
	checks, err := r.siblings(ctx, rows)
	if err != nil {
		return service.CheckPage{}, fmt.Errorf("read the checks of a page: %w", err)
	}
	var all []service.Txn
	for _, check := range checks {
		for _, t := range check {
			all = append(all, t.Txn)
		}
	}
	return q.CheckPage(page, all), nil
}

// over returns the txns of a query's index behind its cursor.
func (r *Reader) over(
	ctx context.Context, q service.HistoryQuery, end time.Time,
) (iter.Seq2[service.Txn, error], error) {
	if q.AttemptID != "" {
		if txns, isRemembered, err := r.ofAttempt(ctx, q); err != nil || isRemembered {
			return txns, err
		}
	}
	if len(q.Keys) > 0 {
		return r.overBucket(ctx, q, end)
	}
	return r.overIDs(ctx, q)
}

// ofAttempt returns the txns of the checks of an attempt id behind the cursor, if the id is remembered.
func (r *Reader) ofAttempt(ctx context.Context, q service.HistoryQuery) (iter.Seq2[service.Txn, error], bool, error) {
	remembered, err := r.Attempts(ctx, []string{q.AttemptID})
	if err != nil {
		return nil, false, fmt.Errorf("look up an attempt: %w", err)
	}
	var named []uint64
	for _, attempt := range remembered[q.AttemptID] {
		for _, v := range attempt.Decision.Verdicts {
			named = append(named, v.TxnID)
		}
	}
	checks, err := r.TxnsOfChecks(ctx, named) // with those of further forms of the keys
	if err != nil {
		return nil, false, fmt.Errorf("look up the txns of an attempt: %w", err)
	}
	rows := map[uint64]Row{}
	for _, check := range checks {
		for _, t := range check {
			if q.Cursor == 0 || t.ID != q.Cursor && (t.ID > q.Cursor) == (q.Order == service.OldestFirst) {
				rows[t.ID] = t
			}
		}
	}
	ids := slices.Sorted(maps.Keys(rows))
	if q.Order == service.NewestFirst {
		slices.Reverse(ids)
	}
	return func(yield func(service.Txn, error) bool) {
		for _, id := range ids {
			if !yield(rows[id].Txn, nil) {
				return
			}
		}
	}, len(named) > 0, nil
}

// overBucket walks over one bucket.
func (r *Reader) overBucket(
	ctx context.Context, q service.HistoryQuery, end time.Time,
) (iter.Seq2[service.Txn, error], error) {
	w := walk{
		low: microseconds(q.Since), high: microseconds(eternity()), isUp: q.Order == service.OldestFirst,
		most: firstRows(q),
	}
	w.over = bucketIndex{reader: r, zoneID: q.Zones[0], keys: q.Keys, isUp: w.isUp}
	if !q.Until.IsZero() {
		w.high = microseconds(q.Until) - 1
	}
	if w.isUp {
		w.high = min(w.high, microseconds(end))
		w.width = w.high // all, as long as that is not too much
		return r.behind(ctx, q, w)
	}
	w.width = day
	if q.Until.IsZero() && q.Cursor == 0 {
		w.width = w.high - microseconds(time.Now()) // from the begin of this day; the engine's clock need not agree
	}
	return r.behind(ctx, q, w)
}

// behind walks without the txns before the cursor.
func (r *Reader) behind(ctx context.Context, q service.HistoryQuery, w walk) (iter.Seq2[service.Txn, error], error) {
	if q.Cursor == 0 {
		return w.txns(ctx), nil
	}
	at, isExact, err := r.placeOf(ctx, q.Cursor, w.isUp)
	if err != nil {
		return nil, err
	}
	switch from := microseconds(at); {
	case at.IsZero():
	case w.isUp:
		w.low = max(w.low, from)
	default:
		w.high = min(w.high, from)
	}
	return func(yield func(service.Txn, error) bool) {
		for txn, err := range w.txns(ctx) {
			isBehind := txn.ID != q.Cursor && (txn.ID > q.Cursor) == w.isUp
			if isExact && err == nil && !txn.CreatedAt.Equal(at) {
				isBehind = true
			}
			if (err != nil || isBehind) && !yield(txn, err) {
				return
			}
		}
	}, nil
}

// overIDs walks over the ids of all buckets.
func (r *Reader) overIDs(ctx context.Context, q service.HistoryQuery) (iter.Seq2[service.Txn, error], error) {
	low, high, err := r.IDsOf(ctx, q.Since, q.Until)
	if err != nil {
		return nil, err
	}
	isUp := q.Order == service.OldestFirst
	switch {
	case q.Cursor == 0:
	case isUp:
		low = max(low, q.Cursor+min(1, math.MaxUint64-q.Cursor))
	default:
		high = min(high, q.Cursor-1)
	}
	return walk{
		over: idIndex{reader: r, within: times{q.Since, q.Until}, isUp: isUp},
		low:  low, high: high, isUp: isUp, width: uint64(firstRows(q)), most: firstRows(q),
	}.txns(ctx), nil
}

// firstRows is how many rows the first statement of a page reads: those of the page and one behind it, if all match.
func firstRows(q service.HistoryQuery) int { return max(q.Limit, 63) + 1 }
