package history

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"velocityd/db/session"
)

// idsNear is how many ids are few enough not to be searched any further.
const idsNear = 1000

// IDsOf returns a range of ids that holds all txns from since to until. It begins and ends up to slack and idsNear ids
// too far. A zero time sets no bound.
func (r *Reader) IDsOf(ctx context.Context, since, until time.Time) (low, high uint64, err error) {
	var highest sql.Null[uint64]
	if err := r.pool.GetContext(ctx, &highest, "SELECT MAX(id) FROM zone_txn"); err != nil {
		return 0, 0, fmt.Errorf("read the highest id: %w", session.LookupError(err))
	}
	low, high = 1, highest.V
	if !since.IsZero() {
		before, _, err := r.search(ctx, since.Add(-slack), high)
		if err != nil {
			return 0, 0, err
		}
		low = before + 1
	}
	if !until.IsZero() {
		_, before, err := r.search(ctx, until.Add(slack), high)
		if err != nil {
			return 0, 0, err
		}
		high = before
	}
	return low, high, nil
}

// search returns two ids that are near each other: txns up to low were decided before an instant, and those above high
// at it or after it. Instants of txns whose ids are near each other may be in another order, but for slack. Between the
// marks before and after the instant it searches the primary key.
func (r *Reader) search(ctx context.Context, at time.Time, highest uint64) (low, high uint64, err error) {
	bounds := struct{ Low, High sql.Null[uint64] }{}
	err = r.pool.GetContext(ctx, &bounds, `
SELECT (SELECT txn_id FROM zone_txn_mark WHERE marked_at <= ? ORDER BY marked_at DESC LIMIT 1) AS low,
       (SELECT txn_id FROM zone_txn_mark WHERE marked_at >= ? ORDER BY marked_at LIMIT 1) AS high`, at, at)
	if err != nil {
		return 0, 0, fmt.Errorf("read the marks of a time: %w", session.LookupError(err))
	}
	low, high = bounds.Low.V, highest
	if bounds.High.Valid {
		high = min(high, bounds.High.V)
	}
	for high > low && high-low > idsNear {
		middle := low + (high-low)/2
		next, exists, err := r.next(ctx, middle+1, high)
		switch {
		case err != nil:
			return 0, 0, err
		case exists && next.CreatedAt.Before(at):
			low = next.ID
		default:
			high = middle
		}
	}
	return low, max(low, high), nil
}

// idAndTime is where a txn lies.
type idAndTime struct {
	ID        uint64    `db:"id"`
	CreatedAt time.Time `db:"created_at"`
}

// next returns the txn with the lowest id of a range, if there is any.
func (r *Reader) next(ctx context.Context, low, high uint64) (next idAndTime, exists bool, err error) {
	for _, at := range []times{r.timesOf(ctx, low, low), {}} {
		since, until := at.bounds()
		var rows []idAndTime
		err := r.pool.SelectContext(ctx, &rows, `
SELECT id, created_at
  FROM zone_txn FORCE INDEX (PRIMARY)
 WHERE id BETWEEN ? AND ?
   AND created_at BETWEEN ? AND ?
 ORDER BY id
 LIMIT 1`, low, high, since, until)
		switch {
		case err != nil:
			return idAndTime{}, false, fmt.Errorf("look for txns from %d to %d: %w", low, high, session.LookupError(err))
		case len(rows) > 0:
			return rows[0], true, nil
		case at.isAll():
			return idAndTime{}, false, nil
		}
	}
	return idAndTime{}, false, nil
}

// placeOf returns where a walk over time goes on after the txn of a cursor: at its instant if it exists, and otherwise
// slack around that of the txn with the next higher id. If there is none, the time is zero.
func (r *Reader) placeOf(ctx context.Context, cursor uint64, isUp bool) (at time.Time, isExact bool, err error) {
	switch next, exists, err := r.next(ctx, cursor, math.MaxUint64); {
	case err != nil || !exists:
		return time.Time{}, false, err
	case next.ID == cursor:
		return next.CreatedAt, true, nil
	case isUp:
		return next.CreatedAt.Add(-slack), false, nil
	default:
		return next.CreatedAt.Add(slack), false, nil
	}
}
