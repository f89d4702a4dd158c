package records

import (
	"context"
	"fmt"

	"velocityd/db/session"
	"velocityd/service"
)

// EraseOverride gives the override of a bucket, if there is one, a pseudonym in the place of its key and a text in the
// place of its reason, and returns how many it was. zone_audit records that, with the pseudonym in both states.
func (s *Tables) EraseOverride(
	ctx context.Context, bucket service.Bucket, pseudonym, text, principal string,
) (n int64, err error) {
	err = s.edit(ctx, principal, func(e *edit) error {
		result, err := e.ExecContext(ctx, `
UPDATE zone_override
   SET bucket_key = ?, reason = ?
 WHERE zone_id = ?
   AND bucket_key = ?`, pseudonym, text, bucket.ZoneID, bucket.Key)
		if err != nil {
			return err
		}
		if n, err = result.RowsAffected(); err != nil || n == 0 || e.hasTriggers {
			return err
		}
		rows := overrideRows("zone_id = ? AND bucket_key = ?", bucket.ZoneID, pseudonym)
		return e.record(ctx, auditUpdate, rows, rows.state, rows.state)
	})
	if err != nil {
		return 0, fmt.Errorf("erase the override of a bucket of zone %d: %w", bucket.ZoneID, session.WriteError(err))
	}
	return n, nil
}
