package records

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

// exportFilter is state_after of an export in zone_audit. The names are those of the HTTP interface. A member that is
// not there lets all txns pass.
type exportFilter struct {
	Format     string           `json:"format"`
	Zones      []int64          `json:"zone_id,omitempty"`
	Keys       []string         `json:"bucket_key,omitempty"`
	Blocked    *bool            `json:"blocked,omitempty"`
	WouldBlock *bool            `json:"would_block,omitempty"`
	Outcome    *service.Outcome `json:"outcome,omitempty"` // "" for txns without a report
	AttemptID  string           `json:"attempt_id,omitempty"`
	Since      *time.Time       `json:"since,omitempty"`
	Until      *time.Time       `json:"until,omitempty"`
	Cursor     uint64           `json:"cursor,string,omitempty"`
}

// NoteExport implements service.ExportNoter: it writes a row of zone_audit, whose zone is 0 unless the export is of one
// zone. Keys are recorded as the query has them, so that those of a zone with pseudonyms are pseudonyms.
func (s *Tables) NoteExport(ctx context.Context, export service.Export, principal string) error {
	q, zone := export.Query, int64(0)
	if len(q.Zones) == 1 {
		zone = q.Zones[0]
	}
	filter, err := json.Marshal(exportFilter{
		Format: export.Format, Zones: q.Zones, Keys: q.Keys, Blocked: q.Blocked, WouldBlock: q.WouldBlock, Outcome: q.Outcome,
		AttemptID: q.AttemptID, Since: bound(q.Since), Until: bound(q.Until), Cursor: q.Cursor,
	})
	if err != nil {
		return fmt.Errorf("note an export: %w", err)
	}
	if err := s.edit(ctx, principal, func(e *edit) (err error) {
		if e.hasTriggers {
			_, err = e.ExecContext(ctx, "CALL note_export(?, ?, ?)", zone, e.principal, string(filter))
		} else {
			_, err = e.ExecContext(ctx, `
INSERT INTO zone_audit (changed_at, changed_by, principal, subject, action, zone_id, state_after)
VALUES (UTC_TIMESTAMP(6), ?, ?, 'history', 'export', ?, ?)`, e.account, e.principal, zone, string(filter))
		}
		return err
	}); err != nil {
		return fmt.Errorf("note an export in zone_audit: %w", session.WriteError(err))
	}
	return nil
}

// bound returns one end of an interval, or nil if it has none.
func bound(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}
