package history

import (
	"context"
	"fmt"
	"math"

	"velocityd/db/session"
	"velocityd/service"
)

// idGround is all buckets, by the ids of txns. It is read forwards, as that of a bucket is, so the lowest ids come first.
type idGround struct {
	reader *Reader
	within times // in which all txns are that matter
	isUp   bool
}

func (g idGround) at(txn service.Txn) uint64 { return txn.ID }

func (g idGround) readsNearest() bool { return g.isUp }

func (g idGround) part(from, width uint64) (to uint64) {
	if g.isUp {
		return from + min(width-1, math.MaxUint64-from)
	}
	return from - min(from, width-1)
}

func (g idGround) read(ctx context.Context, low, high uint64, most int) (txns []service.Txn, rest uint64, isCut bool, err error) {
	since, until := g.reader.timesOf(ctx, low, high).and(g.within).bounds()
	var rows []txnRow
	err = g.reader.pool.SelectContext(ctx, &rows, `
SELECT `+Columns+`
  FROM zone_txn FORCE INDEX (PRIMARY)
 WHERE id BETWEEN ? AND ?
   AND created_at BETWEEN ? AND ?
 ORDER BY id
 LIMIT ?`, low, high, since, until, most+1)
	if err != nil {
		return nil, 0, false, fmt.Errorf("read txns %d to %d: %w", low, high, session.LookupError(err))
	}
	if isCut = len(rows) > most; isCut {
		rest, rows = rows[most].ID, rows[:most]
	}
	return txnsOf(rows), rest, isCut, nil
}
