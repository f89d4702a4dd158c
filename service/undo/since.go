package undo

import (
	"context"
	"fmt"
	"slices"

	"velocityd/service"
	"velocityd/service/audit"
)

// mostAuditPages bounds the pages of the audit that are read for one restoration.
const mostAuditPages = 20

// EntriesSince returns a change of a zone or its overrides and the later ones, in their order. The error wraps
// service.ErrNotFound if the audit does not have the change, and service.ErrConflict if too much was changed since.
func EntriesSince(
	ctx context.Context, reader audit.Reader, zone int64, change uint64,
) (entries []audit.Entry, err error) {
	q := audit.Query{Zones: []int64{zone}, Subjects: []string{"zone", "override"}, Limit: audit.MaxPage}
	for range mostAuditPages {
		page, err := reader.AuditEntries(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			if e.ID >= change {
				entries = append(entries, e)
			}
		}
		if q.Cursor = page.Next; q.Cursor > change {
			continue
		}
		slices.Reverse(entries)
		if len(entries) == 0 || entries[0].ID != change {
			return nil, fmt.Errorf("%w: the audit has no such change of zone %d or its overrides any more",
				service.ErrNotFound, zone)
		}
		return entries, nil
	}
	return nil, fmt.Errorf("%w: too much was changed since; 'velocityd zone restore' has no such bound",
		service.ErrConflict)
}
