package records

import (
	"context"
	"fmt"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/audit"
)

// EditsSince returns the zone of the change with this id, which must be one of a zone or an override, and that change
// with all later ones of the zone, by id. The error wraps service.ErrNotFound if the id is not one of such a change.
func (s *Tables) EditsSince(ctx context.Context, id uint64) (zoneID int64, edits []audit.Edit, err error) {
	var rows []auditRow
	err = s.pool.SelectContext(ctx, &rows, selectAudit+`
 WHERE zone_id = (
     SELECT wanted.zone_id
       FROM zone_audit AS wanted
      WHERE wanted.id = ?
        AND wanted.subject IN ('zone', 'override'))
   AND id >= ?
   AND subject IN ('zone', 'override')
 ORDER BY id`, id, id)
	if err == nil && len(rows) == 0 {
		err = service.ErrNotFound
	}
	if err != nil {
		return 0, nil, fmt.Errorf("read change %d of zone_audit: %w", id, session.LookupError(err))
	}
	edits, err = editsOf(rows)
	return rows[0].ZoneID, edits, err
}

// editsOf returns the edits of rows. The error does NOT quote a row.
func editsOf(rows []auditRow) ([]audit.Edit, error) {
	edits := make([]audit.Edit, len(rows))
	for i, row := range rows {
		var err error
		if edits[i], err = row.entry().Edit(); err != nil {
			return nil, fmt.Errorf("change %d: %w", row.ID, err)
		}
	}
	return edits, nil
}

// NewestChanges returns the newest changes of zones and overrides, the newest first, those of one
// kind and minute together. It reads all of zone_audit.
func (s *Tables) NewestChanges(ctx context.Context, limit int) ([]audit.ChangeGroup, error) {
	var rows []struct {
		auditRow
		Number int `db:"number"`
	}
	if err := s.pool.SelectContext(ctx, &rows, `
SELECT MIN(id) AS id, MIN(changed_at) AS changed_at, changed_by, principal, subject, action, zone_id, COUNT(*) AS number
  FROM zone_audit
 WHERE subject IN ('zone', 'override')
 GROUP BY changed_by, principal, subject, action, zone_id, UNIX_TIMESTAMP(changed_at) DIV 60
 ORDER BY id DESC
 LIMIT ?`, limit); err != nil {
		return nil, fmt.Errorf("list changes: %w", session.LookupError(err))
	}
	groups := make([]audit.ChangeGroup, len(rows))
	for i, row := range rows {
		groups[i] = audit.ChangeGroup{
			ID: row.ID, At: row.At, By: row.Account, Principal: row.Principal.V, Action: row.Action, ZoneID: row.ZoneID,
			OfOverride: row.Subject == "override", Number: row.Number,
		}
	}
	return groups, nil
}
