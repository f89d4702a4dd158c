package retention

import (
	"context"
	"fmt"
	"time"

	"velocityd/db/session"
)

// OldestTxn returns when the txn with the lowest id was recorded, or the zero time if there is none. The error wraps
// service.ErrBusy if the engine is away.
func (r *Runner) OldestTxn(ctx context.Context) (at time.Time, err error) {
	var found []time.Time
	if err := r.pool.SelectContext(ctx, &found, `
SELECT created_at
  FROM zone_txn
 ORDER BY id
 LIMIT 1`); err != nil {
		return at, fmt.Errorf("look for the oldest txn: %w", session.LookupError(err))
	}
	if len(found) > 0 {
		at = found[0]
	}
	return at, nil
}
