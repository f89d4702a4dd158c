package records

import (
	"context"
	"fmt"

	"velocityd/db/session"
)

const (
	// mostRemoved is how many expired overrides are removed at once.
	mostRemoved = 100
	// retentionPrincipal is the principal of the removal in zone_audit.
	retentionPrincipal = "velocityd retention"
)

// RemoveExpired removes some of the overrides that expired more than a day ago, on an engine without procedures.
// zone_audit has them afterwards. more says that there may be others.
func (s *Tables) RemoveExpired(ctx context.Context) (removed int64, more bool, err error) {
	err = s.edit(ctx, retentionPrincipal, func(e *edit) error {
		var ids []uint64
		if err := e.SelectContext(ctx, &ids, fmt.Sprintf(`
SELECT id
  FROM zone_override
 WHERE expires_at < UTC_TIMESTAMP(6) - INTERVAL 1 DAY
 ORDER BY id
 LIMIT %d
   FOR UPDATE`, mostRemoved)); err != nil {
			return err
		}
		for _, id := range ids {
			n, err := e.remove(ctx, overrideRows("id = ?", id))
			if err != nil {
				return err
			}
			removed += n
		}
		more = len(ids) == mostRemoved
		return nil
	})
	if err != nil {
		return 0, false, fmt.Errorf("remove expired overrides: %w", session.WriteError(err))
	}
	return removed, more, nil
}
