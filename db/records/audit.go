package records

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

// changeRow is a row of zone_audit.
type changeRow struct {
	ID         uint64           `db:"id"`
	At         time.Time        `db:"changed_at"`
	By         string           `db:"changed_by"`
	Principal  sql.Null[string] `db:"principal"`
	Subject    string           `db:"subject"`
	Action     string           `db:"action"`
	ZoneID     int64            `db:"zone_id"`
	OverrideID sql.Null[uint64] `db:"override_id"`
	Before     []byte           `db:"state_before"`
	Number     int              `db:"number"`
}

func (r changeRow) change() service.Change {
	return service.Change{
		ID: r.ID, At: r.At, By: r.By, Principal: r.Principal.V, Action: r.Action, ZoneID: r.ZoneID,
		OverrideID: r.OverrideID.V, Before: r.Before,
	}
}

// ChangesSince returns the change of a zone or an override with this id, and all later ones of the
// same zone, by id. The error wraps service.ErrNotFound if the id is not one of such a change.
func (s *Tables) ChangesSince(ctx context.Context, id uint64) ([]service.Change, error) {
	var rows []changeRow
	err := s.pool.SelectContext(ctx, &rows, `
SELECT later.id, later.changed_at, later.changed_by, later.principal, later.action, later.zone_id, later.override_id, later.state_before
  FROM zone_audit AS wanted
  JOIN zone_audit AS later ON later.zone_id = wanted.zone_id AND later.id >= wanted.id
 WHERE wanted.id = ?
   AND wanted.subject IN ('zone', 'override')
   AND later.subject IN ('zone', 'override')
 ORDER BY later.id`, id)
	if err == nil && len(rows) == 0 {
		err = service.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read change %d of zone_audit: %w", id, session.LookupError(err))
	}
	changes := make([]service.Change, len(rows))
	for i, row := range rows {
		changes[i] = row.change()
	}
	return changes, nil
}

// NewestChanges returns the newest changes of zones and overrides, the newest first, those of one
// kind and minute together. It reads all of zone_audit.
func (s *Tables) NewestChanges(ctx context.Context, limit int) ([]service.ChangeGroup, error) {
	var rows []changeRow
	if err := s.pool.SelectContext(ctx, &rows, `
SELECT MIN(id) AS id, MIN(changed_at) AS changed_at, changed_by, principal, subject, action, zone_id, COUNT(*) AS number
  FROM zone_audit
 WHERE subject IN ('zone', 'override')
 GROUP BY changed_by, principal, subject, action, zone_id, UNIX_TIMESTAMP(changed_at) DIV 60
 ORDER BY id DESC
 LIMIT ?`, limit); err != nil {
		return nil, fmt.Errorf("list changes: %w", session.LookupError(err))
	}
	groups := make([]service.ChangeGroup, len(rows))
	for i, row := range rows {
		groups[i] = service.ChangeGroup{Change: row.change(), OfOverride: row.Subject == "override", Number: row.Number}
	}
	return groups, nil
}
