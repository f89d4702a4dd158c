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
	"velocityd/service/backtest"
)

// replayRows is how many rows one statement of a back-test reads at most.
const replayRows = 20_000

// errReplayEnds says that whoever takes rows wants no more.
var errReplayEnds = errors.New("no more rows are wanted")

// replayColumns are those of a backtest.Row.
const replayColumns = "id, created_at, zone_id, bucket_key, blocked, would_block, reason, outcome, check_id, check_buckets, repeats, uncounted_at"

// Replay calls take for the txns of a time, by id, until it returns false. It holds one part of some thousand rows at a
// time. Txns that are recorded meanwhile may be left out. The error wraps service.ErrBusy if the engine is away.
func (r *Reader) Replay(ctx context.Context, since, until time.Time, take func(backtest.Row) (goesOn bool)) error {
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
	ctx context.Context, low, high uint64, within times, take func(backtest.Row) bool,
) (last uint64, n int, err error) {
	since, until := within.bounds()
	var packet session.Packet
	packet.SQL("SELECT " + replayColumns + " FROM zone_txn FORCE INDEX (PRIMARY) WHERE id BETWEEN ").Uint(low)
	packet.SQL(" AND ").Uint(high)
	packet.SQL(" AND created_at BETWEEN ").Instant(since).SQL(" AND ").Instant(until).SQL(" ORDER BY id LIMIT ").Int(replayRows)
	err = r.pool.On(ctx, func(conn *sqlx.Conn) error {
		own, err := session.Of(conn.Conn)
		if err != nil {
			return err
		}
		return own.Each(ctx, 12, string(packet.Text), func(values []driver.Value) error {
			row, err := replayRowOf(values)
			if err != nil {
				return err
			}
			last, n = row.Place.TxnID, n+1
			if !take(row) {
				return errReplayEnds
			}
			return nil
		})
	})
	return last, n, err
}

// replayRowOf reads a row of replayColumns.
func replayRowOf(values []driver.Value) (row backtest.Row, err error) {
	row = backtest.Row{
		Blocked: session.AsInt(values[4]) != 0, Outcome: outcomeOf(values[7]),
		CheckID: uint64(session.AsInt(values[8])), Buckets: int(session.AsInt(values[9])),
		Place: backtest.Place{
			TxnID: uint64(session.AsInt(values[0])), Bucket: service.Bucket{ZoneID: session.AsInt(values[2]), Key: session.Text(values[3])},
			WouldBlock: session.AsInt(values[5]) != 0, Reason: reasonOf(values[6]), Repeats: int(session.AsInt(values[10])),
		},
	}
	at, isInstant := values[1].(time.Time)
	uncounted, wasUncounted := values[11].(time.Time)
	if !isInstant || !wasUncounted && values[11] != nil {
		return row, session.ErrMisfit
	}
	row.At, row.Place.UncountedAt = at, uncounted
	return row, nil
}

// reasonOf returns the reason of a row. It is one of the constants, so that rows share their text.
func reasonOf(value driver.Value) service.Reason {
	text, _ := value.([]byte)
	for _, reason := range service.Reasons() {
		if string(text) == string(reason) {
			return reason
		}
	}
	return ""
}

// outcomeOf returns the outcome of a row, likewise.
func outcomeOf(value driver.Value) service.Outcome {
	text, _ := value.([]byte)
	switch string(text) {
	case string(service.OutcomeSuccess):
		return service.OutcomeSuccess
	case string(service.OutcomeFailure):
		return service.OutcomeFailure
	}
	return ""
}
