package records

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/audit"
)

var _ audit.Reader = (*Tables)(nil)

// auditRow is a row of zone_audit.
type auditRow struct {
	ID         uint64           `db:"id"`
	At         time.Time        `db:"changed_at"`
	Account    string           `db:"changed_by"`
	Principal  sql.Null[string] `db:"principal"`
	Reason     sql.Null[string] `db:"reason"`
	Subject    string           `db:"subject"`
	Action     string           `db:"action"`
	ZoneID     int64            `db:"zone_id"`
	OverrideID sql.Null[uint64] `db:"override_id"`
	Before     []byte           `db:"state_before"`
	After      []byte           `db:"state_after"`
}

const selectAudit = `
SELECT id, changed_at, changed_by, principal, reason, subject, action, zone_id, override_id, state_before, state_after
  FROM zone_audit`

func (r auditRow) entry() audit.Entry {
	return audit.Entry{
		ID: r.ID, At: service.At(r.At), Account: r.Account, Principal: r.Principal.V, Reason: r.Reason.V, Subject: r.Subject,
		Action: r.Action, ZoneID: r.ZoneID, OverrideID: r.OverrideID.V, Before: r.Before, After: r.After,
	}.WithReason()
}

// AuditEntries implements audit.Reader. It reads audit.MaxScan rows by the primary key, or those of one zone or of some
// of its keys by their index, and chooses among them.
func (s *Tables) AuditEntries(ctx context.Context, q audit.Query) (audit.Page, error) {
	if err := q.Validate(); err != nil {
		return audit.Page{}, err
	}
	below, err := s.newestAudit(ctx, q)
	if err != nil {
		return audit.Page{}, fmt.Errorf("look for the begin of a page of zone_audit: %w", session.LookupError(err))
	}
	from, args := "\n WHERE id < ?", []any{below}
	if len(q.Zones) == 1 {
		from += "\n   AND zone_id = ?"
		args = append(args, q.Zones[0])
	}
	if len(q.Keys) > 0 {
		from = " FORCE INDEX (zone_audit_key)" + from +
			"\n   AND bucket_key IN (?" + strings.Repeat(", ?", len(q.Keys)-1) + ")"
		for _, key := range q.Keys {
			args = append(args, key)
		}
	}
	var rows []auditRow
	if err := s.pool.SelectContext(ctx, &rows, selectAudit+from+`
 ORDER BY id DESC
 LIMIT ?`, append(args, audit.MaxScan)...); err != nil {
		return audit.Page{}, fmt.Errorf("read zone_audit: %w", session.LookupError(err))
	}
	entries := make([]audit.Entry, len(rows))
	for i, row := range rows {
		entries[i] = row.entry()
	}
	return audit.NewPage(q, entries, audit.MaxScan), nil
}

// newestAudit returns the id below which all entries of a query are. Where the query ends at an instant, it is found by
// the index of times.
func (s *Tables) newestAudit(ctx context.Context, q audit.Query) (uint64, error) {
	below := uint64(math.MaxInt64) // no id is higher
	if q.Cursor != 0 {
		below = min(below, q.Cursor)
	}
	if q.Until.IsZero() {
		return below, nil
	}
	var newest []uint64
	err := s.pool.SelectContext(ctx, &newest, `
SELECT id
  FROM zone_audit
 WHERE changed_at < ?
 ORDER BY changed_at DESC
 LIMIT 1`, q.Until.UTC().Add(audit.Slack))
	if err != nil || len(newest) == 0 {
		return 0, err // without any, no entry matches
	}
	return min(below, newest[0]+1), nil
}
