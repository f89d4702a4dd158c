package history

import (
	"context"
	"fmt"
	"math"

	"velocityd/db/session"
	"velocityd/service"
)

// widestPart is the most ids that one statement goes over where most txns are of other zones.
const widestPart = 500_000

// idIndex is all buckets, or those of some zones, by the ids of txns. It is read forwards, as that of a bucket is, so
// the lowest ids come first.
type idIndex struct {
	reader *Reader
	within times   // in which all txns are that matter
	zones  []int64 // none: all
	isUp   bool
}

func (x idIndex) at(txn service.Txn) uint64 { return txn.ID }

func (x idIndex) readsNearest() bool { return x.isUp }

func (x idIndex) part(from, width uint64) (to uint64) {
	if len(x.zones) > 0 {
		width = min(width, widestPart)
	}
	if x.isUp {
		return from + min(width-1, math.MaxUint64-from)
	}
	return from - min(from, width-1)
}

// statement reads a range of ids, of some zones or of all. There is no index by zone and time, which each check would
// have to write: the engine passes over the txns of other zones.
func (x idIndex) statement(low, high uint64, within times, most int) *session.Packet {
	since, until := within.bounds()
	p := new(session.Packet)
	p.SQL("SELECT " + Columns + " FROM zone_txn FORCE INDEX (PRIMARY) WHERE id BETWEEN ").Uint(low)
	p.SQL(" AND ").Uint(high)
	p.SQL(" AND created_at BETWEEN ").Instant(since).SQL(" AND ").Instant(until)
	if len(x.zones) > 0 {
		p.SQL(" AND zone_id IN ").List(len(x.zones), func(i int) { p.Int(x.zones[i]) })
	}
	return p.SQL(" ORDER BY id LIMIT ").Int(int64(most))
}

func (x idIndex) read(
	ctx context.Context, low, high uint64, most int,
) (txns []service.Txn, rest uint64, isCut bool, err error) {
	rows, err := x.reader.rows(ctx, x.statement(low, high, x.reader.timesOf(ctx, low, high).and(x.within), most+1))
	if err != nil {
		return nil, 0, false, fmt.Errorf("read txns %d to %d: %w", low, high, session.LookupError(err))
	}
	if isCut = len(rows) > most; isCut {
		rest, rows = rows[most].ID, rows[:most]
	}
	return txnsOf(rows), rest, isCut, nil
}
