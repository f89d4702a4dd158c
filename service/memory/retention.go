package memory

import (
	"context"

	"velocityd/service"
)

// SetRetention sets the tasks that Retention tells of. A Store itself removes nothing.
func (m *Store) SetRetention(tasks ...service.RetentionTask) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retention = tasks
}

// Retention implements service.RetentionReader.
func (m *Store) Retention(context.Context) (service.Retention, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := service.Retention{Tasks: m.retention}
	if len(m.txns) > 0 {
		state.OldestTxn = m.txns[0].CreatedAt
	}
	return state, nil
}
