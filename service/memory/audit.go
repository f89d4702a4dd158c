package memory

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"velocityd/service"
)

var _ service.AuditReader = (*Store)(nil)

// AuditEntries implements service.AuditReader. Entries have no account, and of their states the key alone.
func (m *Store) AuditEntries(_ context.Context, q service.AuditQuery) (service.AuditPage, error) {
	if err := q.Validate(); err != nil {
		return service.AuditPage{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var entries []service.AuditEntry
	for i, a := range slices.Backward(m.audits) {
		if id := uint64(i + 1); q.Cursor == 0 || id < q.Cursor {
			entries = append(entries, a.entry(id))
		}
	}
	return service.NewAuditPage(q, entries, len(entries)+1), nil
}

// entry returns the row as a database would have it.
func (a Audit) entry(id uint64) service.AuditEntry {
	verb, subject, _ := strings.Cut(a.Action, " ")
	if action, isOther := map[string]string{"put": "update", "add": "insert", "set": "update"}[verb]; isOther {
		verb = action
	}
	after, _ := json.Marshal(map[string]string{"bucket_key": a.Key})
	return service.AuditEntry{
		ID: id, At: service.At(a.At), Principal: a.Principal, Reason: a.Reason, Subject: subject, Action: verb,
		ZoneID: a.ZoneID, After: after,
	}
}
