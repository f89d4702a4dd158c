package totals

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/service"
)

// Move gives the totals of a bucket another key, which must be new, in one transaction with its txns: move gets the
// transaction, and moves all txns of the bucket from since on, whose hours are counted once more. No roll-up counts
// meanwhile, and one that has read already gives up.
func Move(
	ctx context.Context, on *sqlx.Conn, bucket service.Bucket, to string, move func(tx *sqlx.Tx, since time.Time) error,
) error {
	if _, err := start(ctx, on); err != nil {
		return err
	}
	tx, err := on.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	// It locks the row, so that no roll-up writes.
	if _, err := tx.ExecContext(ctx, "UPDATE totals_progress SET pass = pass + 1 WHERE id = 1"); err != nil {
		return err
	}
	p, _, err := readProgress(ctx, tx)
	if err != nil {
		return err
	}
	if err := move(tx, p.FinalTo); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
INSERT INTO zone_bucket_total (zone_id, bucket_key, span, begins_at, `+counts+`, last_at)
SELECT zone_id, ?, span, begins_at, `+counts+`, last_at
  FROM zone_bucket_total
 WHERE zone_id = ?
   AND bucket_key = ?`, to, bucket.ZoneID, bucket.Key); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
DELETE FROM zone_bucket_total
 WHERE zone_id = ?
   AND bucket_key = ?`, bucket.ZoneID, bucket.Key); err != nil {
		return err
	}
	return tx.Commit()
}
