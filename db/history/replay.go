package history

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/service"
)

// replayRows is how many rows one statement of a back-test reads at most.
const replayRows = 20_000

// errReplayEnds says that whoever takes rows wants no more.
var errReplayEnds = errors.New("no more rows are wanted")

// Replay calls take for the txns of a time, by id, until it returns false. It holds one part of some thousand rows at a
// time. Txns that are recorded meanwhile may be left out. The error wraps service.ErrBusy if the engine is away.
func (r *Reader) Replay(ctx context.Context, since, until time.Time, take func(service.Txn) (goesOn bool)) error {
	low, high, err := r.IDsOf(ctx, since, until)
	if err != nil {
		return err
	}
	within := times{since, until}
	for low <= high && high > 0 {
		last, n, err := r.replayPart(ctx, low, high, within, take)
		switch {
		case errors.Is(err, errReplayEnds):
			return nil
		case err != nil:
			return fmt.Errorf("read txns from %d on: %w", low, session.LookupError(err))
		case n < replayRows:
			return nil
		}
		low = last + 1
	}
	return nil
}

// replayPart reads the first rows of a range of ids, and returns the last id and how many they were.
func (r *Reader) replayPart(
	ctx context.Context, low, high uint64, within times, take func(service.Txn) bool,
) (last uint64, n int, err error) {
	since, until := within.bounds()
	var packet session.Packet
	packet.SQL("SELECT " + Columns + " FROM zone_txn FORCE INDEX (PRIMARY) WHERE id BETWEEN ").Uint(low)
	packet.SQL(" AND ").Uint(high)
	packet.SQL(" AND created_at BETWEEN ").Instant(since).SQL(" AND ").Instant(until).SQL(" ORDER BY id LIMIT ").Int(replayRows)
	err = r.pool.On(ctx, func(conn *sqlx.Conn) error {
		own, err := session.Of(conn.Conn)
		if err != nil {
			return err
		}
		return own.Each(ctx, NumColumns, string(packet.Text), func(values []driver.Value) error {
			txn, err := TxnOf(values)
			if err != nil {
				return err
			}
			last, n = txn.ID, n+1
			if !take(txn) {
				return errReplayEnds
			}
			return nil
		})
	})
	return last, n, err
}
