package memory

import (
	"context"

	"velocityd/service"
)

// NoteExport implements service.ExportNoter. The audit's reason is the format.
func (m *Store) NoteExport(_ context.Context, export service.Export, principal string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	audit := Audit{At: m.now(), Action: "export history", Principal: principal, Reason: export.Format}
	if len(export.Query.Zones) == 1 {
		audit.ZoneID = export.Query.Zones[0]
	}
	if len(export.Query.Keys) > 0 {
		audit.Key = export.Query.Keys[0]
	}
	m.audits = append(m.audits, audit)
	return nil
}
