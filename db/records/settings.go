package records

import (
	"context"
	"errors"
	"fmt"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/audit"
	"velocityd/service/backtest"
)

// settingsRows is how many rows of zone_audit one statement reads.
const settingsRows = 5000

// SettingsSince returns all zones and overrides as they were at an instant, and their changes since, as far as
// zone_audit has them. If the account may not read zone_audit, it returns those of now. The error wraps service.ErrBusy
// if the engine is away, and does NOT hold a key.
func (s *Tables) SettingsSince(ctx context.Context, since time.Time) (backtest.Past, error) {
	zones, err := s.Zones(ctx)
	if err != nil {
		return backtest.Past{}, err
	}
	var overrides []service.Override
	for _, zone := range zones {
		of, err := service.AllOverrides(ctx, s, zone.ID)
		if err != nil && !errors.Is(err, service.ErrNotFound) {
			return backtest.Past{}, err
		}
		overrides = append(overrides, of...)
	}
	edits, err := s.editsSince(ctx, since)
	if session.IsOneOf(err, session.LackingRight()) {
		return backtest.Past{Zones: zones, Overrides: overrides, IsPresent: true}, nil
	}
	if err != nil {
		return backtest.Past{}, fmt.Errorf("read the changes of zones and overrides: %w", session.LookupError(err))
	}
	return backtest.NewPast(zones, overrides, edits), nil
}

// editsSince reads the edits of all zones since an instant, by id.
func (s *Tables) editsSince(ctx context.Context, since time.Time) (list []audit.Edit, err error) {
	for after := uint64(0); ; {
		var rows []auditRow
		err := s.pool.SelectContext(ctx, &rows, selectAudit+`
 WHERE id > ?
   AND changed_at >= ?
   AND subject IN ('zone', 'override', 'bucket')
 ORDER BY id
 LIMIT ?`, after, since, settingsRows)
		if err != nil {
			return nil, err
		}
		edits, err := editsOf(rows)
		if err != nil {
			return nil, err
		}
		if list = append(list, edits...); len(rows) < settingsRows {
			return list, nil
		}
		after = rows[len(rows)-1].ID
	}
}
