package servicetest

import (
	"context"

	"velocityd/service"
)

// SetRetention sets the tasks that Retention tells of. A Memory itself removes nothing.
func (m *Memory) SetRetention(tasks ...service.RetentionTask) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retention = tasks
}

// Retention implements service.RetentionReader.
func (m *Memory) Retention(context.Context) (service.Retention, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := service.Retention{Tasks: m.retention}
	if len(m.txns) > 0 {
		state.OldestTxn = m.txns[0].CreatedAt
	}
	return state, nil
}
