package history

import (
	"context"
	"slices"
	"time"

	"velocityd/db/session"
)

// idsAtOnce bounds how many txns one statement names.
const idsAtOnce = 100

// byID reads rows of zone_txn by the ids of txns. It looks at these times first, then at those of the ids' marks for
// the txns that were not there, and for the others everywhere.
func (r *Reader) byID(ctx context.Context, ids []uint64, first ...times) (rows []Row, err error) {
	for some := range slices.Chunk(ids, idsAtOnce) {
		rest := slices.Clone(some)
		for _, at := range append(first, r.timesOf(ctx, slices.Min(rest), slices.Max(rest)), times{}) {
			found, err := r.within(ctx, rest, at)
			if err != nil {
				return nil, session.LookupError(err)
			}
			rows = append(rows, found...)
			isFound := func(id uint64) bool { return slices.ContainsFunc(found, func(row Row) bool { return row.ID == id }) }
			if rest = slices.DeleteFunc(rest, isFound); len(rest) == 0 || at.isAll() {
				break
			}
		}
	}
	return rows, nil
}

// within reads rows by the ids of txns that were decided at some times.
func (r *Reader) within(ctx context.Context, ids []uint64, at times) ([]Row, error) {
	p := new(session.Packet)
	p.SQL("SELECT "+Columns+" FROM zone_txn WHERE id IN ").List(len(ids), func(i int) { p.Uint(ids[i]) })
	if !at.isAll() {
		since, until := at.bounds()
		p.SQL(" AND created_at BETWEEN ").Instant(since).SQL(" AND ").Instant(until)
	}
	return r.rows(ctx, p)
}

// instant is the times of one instant.
func instant(at time.Time) times { return times{at, at} }
