package retention

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
)

// allMarksFor is for how long each mark is kept. From then on those of the first minute of an hour stay.
const allMarksFor = 48 * time.Hour

// Marks returns the task that notes in zone_txn_mark which id was the highest when.
func Marks() Task {
	return Task{Name: "marks", Every: time.Minute, Run: mark, Expect: oldMarks().count}
}

// mark notes the highest id, and forgets the marks that are older than allMarksFor, but for those of the first minute
// of each hour.
func mark(ctx context.Context, on *sqlx.Conn, _ string) (Result, error) {
	var highest sql.Null[uint64]
	if err := on.GetContext(ctx, &highest, "SELECT MAX(id) FROM zone_txn"); err != nil {
		return Result{}, fmt.Errorf("read the highest id: %w", session.LookupError(err))
	}
	if highest.Valid {
		// The clock is read after the id, so no txn up to it is younger. An earlier mark of the same id stays, because it
		// says more of the txns before it.
		if _, err := on.ExecContext(ctx, `
INSERT IGNORE INTO zone_txn_mark (txn_id, marked_at)
VALUES (?, UTC_TIMESTAMP(6))`, highest.V); err != nil {
			return Result{}, fmt.Errorf("mark id %d: %w", highest.V, session.WriteError(err))
		}
	}
	forgotten, err := oldMarks().remove(ctx, on)
	if err != nil {
		return Result{}, session.WriteError(err)
	}
	return Result{Removed: forgotten, Backlog: forgotten == removedAtOnce}, nil
}

// oldMarks are the marks that are forgotten.
func oldMarks() OldRows {
	return OldRows{
		What: "marks of ids",
		From: "zone_txn_mark WHERE marked_at < UTC_TIMESTAMP(6) - INTERVAL ? SECOND AND EXTRACT(MINUTE FROM marked_at) <> 0",
		Args: []any{int64(allMarksFor / time.Second)},
	}
}
