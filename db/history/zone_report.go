package history

import (
	"context"
	"time"

	"velocityd/service"
)

// reportRows is how many rows one statement of a report reads.
const reportRows = 20_000

// MostTxns implements zonereport.Source by the ids of that time.
func (r *Reader) MostTxns(ctx context.Context, since, until time.Time) (int, error) {
	low, high, err := r.IDsOf(ctx, since, until)
	if err != nil || high < low {
		return 0, err
	}
	return int(high - low + 1), nil
}

// ReadTxns implements zonereport.Source. It walks the primary key in parts of some thousand ids, from the newest of the
// time on, and holds one part at a time.
func (r *Reader) ReadTxns(
	ctx context.Context, zones []int64, since, until time.Time, most int, take func(service.Txn) bool,
) (from time.Time, passed int, err error) {
	low, high, err := r.IDsOf(ctx, since, until)
	if err != nil || high < low {
		return since, 0, err
	}
	first := low // of the ids that are read
	if high-low >= uint64(most) {
		first = high - uint64(most) + 1
	}
	over := idIndex{reader: r, within: times{since, until}, zones: zones}
	for txn, err := range (walk{over: over, low: first, high: high, width: reportRows, most: reportRows}).txns(ctx) {
		if err != nil {
			return since, 0, err
		}
		if !take(txn) {
			return since, int(high - txn.ID + 1), nil
		}
	}
	passed = int(high - first + 1)
	if first == low {
		return since, passed, nil
	}
	cut, isThere, err := r.next(ctx, first, high)
	if !isThere {
		return until, passed, err
	}
	return cut.CreatedAt, passed, err
}
