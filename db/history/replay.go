package history

import (
	"context"
	"time"

	"velocityd/service"
)

// replayRows is how many rows one statement of a back-test reads at most.
const replayRows = 20_000

// Replay calls take for the txns of a time, by id, until it returns false. It holds one part of some thousand rows at a
// time. Txns that are recorded meanwhile may be left out. The error wraps service.ErrBusy if the engine is away.
func (r *Reader) Replay(ctx context.Context, since, until time.Time, take func(service.Txn) (goesOn bool)) error {
	low, high, err := r.IDsOf(ctx, since, until)
	if err != nil {
		return err
	}
	over := idIndex{reader: r, within: times{since, until}, isUp: true}
	for txn, err := range (walk{over: over, low: low, high: high, isUp: true, width: replayRows, most: replayRows}).txns(
		ctx) {
		if err != nil {
			return err
		}
		if !take(txn) {
			break
		}
	}
	return nil
}
