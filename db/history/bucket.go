package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

const day = uint64(24 * time.Hour / time.Microsecond)

// bucketIndex is one bucket by time, under each form of its key. zone_txn_window is read forwards, because engines
// lose rows when they read it backwards: so the newest txns of an interval come first.
type bucketIndex struct {
	reader *Reader
	zoneID int64
	keys   []string
	isUp   bool
}

func (x bucketIndex) at(txn service.Txn) uint64 { return microseconds(txn.CreatedAt.Time) }

func (x bucketIndex) readsNearest() bool { return !x.isUp }

// part ends downward parts at midnight, where partitions begin.
func (x bucketIndex) part(from, width uint64) (to uint64) {
	if x.isUp {
		return from + min(width-1, microseconds(eternity()))
	}
	to = from - min(width, from)
	return to - to%day
}

func (x bucketIndex) read(
	ctx context.Context, low, high uint64, most int,
) (txns []service.Txn, rest uint64, isCut bool, err error) {
	for _, key := range x.keys {
		rows, err := x.readKey(ctx, key, low, high, most+1)
		if err != nil {
			return nil, 0, false, fmt.Errorf("read the history of a bucket in zone %d: %w", x.zoneID, session.LookupError(err))
		}
		txns = append(txns, txnsOf(rows)...)
		if len(rows) > most {
			rest, isCut = max(rest, microseconds(rows[most].CreatedAt.Time)), true
		}
	}
	if isCut {
		txns = slices.DeleteFunc(txns, func(t service.Txn) bool { return x.at(t) <= rest })
	}
	return txns, rest, isCut, nil
}

// readKey reads the newest rows of an interval. One statement reads those that count and those that do not: a row whose
// place is given back meanwhile is among either.
func (x bucketIndex) readKey(ctx context.Context, key string, low, high uint64, most int) ([]Row, error) {
	since, until := time.UnixMicro(int64(low)), time.UnixMicro(int64(high))
	const newest = " ORDER BY created_at DESC, id DESC LIMIT "
	p := new(session.Packet)
	for i, counted := range []bool{true, false} {
		if i > 0 {
			p.SQL(" UNION ALL ")
		}
		p.SQL("(SELECT " + Columns + " FROM zone_txn FORCE INDEX (zone_txn_window)").
			WhereBucket(service.Bucket{ZoneID: x.zoneID, Key: key}).SQL(" AND counted = ").Bool(counted).
			SQL(" AND created_at BETWEEN ").Instant(since).SQL(" AND ").Instant(until).SQL(newest).Int(int64(most)).SQL(")")
	}
	rows, err := x.reader.rows(ctx, p.SQL(newest).Int(int64(most)))
	// vtgate may merge the two in another way than the engine.
	slices.SortFunc(
		rows, func(x, y Row) int { return -cmp.Or(x.CreatedAt.Compare(y.CreatedAt.Time), cmp.Compare(x.ID, y.ID)) })
	return rows, err
}
