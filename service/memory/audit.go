package memory

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"velocityd/service"
	"velocityd/service/audit"
)

var _ audit.Reader = (*Store)(nil)

// AuditEntries implements audit.Reader. Entries have no account, and of their states the key alone.
func (m *Store) AuditEntries(_ context.Context, q audit.Query) (audit.Page, error) {
	if err := q.Validate(); err != nil {
		return audit.Page{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var entries []audit.Entry
	for i, a := range slices.Backward(m.audits) {
		if id := uint64(i + 1); q.Cursor == 0 || id < q.Cursor {
			entries = append(entries, a.entry(id))
		}
	}
	return audit.NewPage(q, entries, len(entries)+1), nil
}

// entry returns the row as a database would have it.
func (a Audit) entry(id uint64) audit.Entry {
	verb, subject, _ := strings.Cut(a.Action, " ")
	if action, isOther := map[string]string{"put": "update", "add": "insert", "set": "update"}[verb]; isOther {
		verb = action
	}
	after, _ := json.Marshal(map[string]string{"bucket_key": a.Key})
	return audit.Entry{
		ID: id, At: service.At(a.At), Principal: a.Principal, Reason: a.Reason, Subject: subject, Action: verb,
		ZoneID: a.ZoneID, After: after,
	}
}
