//go:build cluster

package records

import (
	"context"

	"velocityd/service"
)

// ForceOverride puts an override in the place of those of the same target, whether or not it fits its
// zone. Tests on a cluster edit by it as a DBA does by SQL where triggers note the change.
func (s *Tables) ForceOverride(ctx context.Context, o service.Override) error {
	return s.edit(ctx, "", func(e *edit) error {
		if _, err := lockZone(ctx, e, o.ZoneID); err != nil {
			return err
		}
		where, args := sameTarget(o)
		if _, err := e.remove(ctx, overrideRows(where, args...)); err != nil {
			return err
		}
		_, err := insertOverride(ctx, e, o)
		return err
	})
}

// DropOverrides deletes all overrides of a zone.
func (s *Tables) DropOverrides(ctx context.Context, zoneID int64) error {
	return s.edit(ctx, "", func(e *edit) error {
		_, err := e.remove(ctx, overrideRows("zone_id = ?", zoneID))
		return err
	})
}
