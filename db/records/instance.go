package records

import (
	"context"
	"fmt"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

var _ service.InstanceLister = (*Tables)(nil)

// instanceRow is a row of service_instance.
type instanceRow struct {
	Name      string    `db:"name"`
	Host      string    `db:"host"`
	Version   string    `db:"version"`
	StartedAt time.Time `db:"started_at"`
	SeenAt    time.Time `db:"seen_at"`
	IsSilent  bool      `db:"is_silent"`
	Allowed   uint64    `db:"allowed"`
	Blocked   uint64    `db:"blocked"`
	Undecided uint64    `db:"undecided"`
}

// Instances implements service.InstanceLister.
func (s *Tables) Instances(ctx context.Context) ([]service.Instance, error) {
	var rows []instanceRow
	if err := s.pool.SelectContext(ctx, &rows, `
SELECT name, host, version, started_at, seen_at, seen_at < UTC_TIMESTAMP(6) - INTERVAL ? SECOND AS is_silent, allowed, blocked, undecided
  FROM service_instance
 WHERE seen_at > UTC_TIMESTAMP(6) - INTERVAL ? SECOND
 ORDER BY started_at DESC, name
 LIMIT ?`, seconds(service.InstanceSilence), seconds(service.InstanceMemory), service.MaxInstances); err != nil {
		return nil, fmt.Errorf("list instances: %w", session.LookupError(err))
	}
	list := make([]service.Instance, len(rows))
	for i, row := range rows {
		list[i] = service.Instance(row)
	}
	return list, nil
}

// NoteInstance records a sign of an instance. Its times are the engine's.
func (s *Tables) NoteInstance(ctx context.Context, i service.Instance) error {
	if err := s.pool.Exec(ctx, `
INSERT INTO service_instance (name, host, version, started_at, seen_at, allowed, blocked, undecided)
VALUES (?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), ?, ?, ?)
    ON DUPLICATE KEY UPDATE seen_at = UTC_TIMESTAMP(6), allowed = VALUES(allowed), blocked = VALUES(blocked), undecided = VALUES(undecided)`,
		i.Name, i.Host, i.Version, i.Allowed, i.Blocked, i.Undecided); err != nil {
		return fmt.Errorf("note instance %s: %w", i.Name, session.WriteError(err))
	}
	return nil
}

// ForgetInstances deletes the instances that have given no sign for InstanceMemory.
func (s *Tables) ForgetInstances(ctx context.Context) error {
	if err := s.pool.Exec(ctx, `
DELETE FROM service_instance
 WHERE seen_at < UTC_TIMESTAMP(6) - INTERVAL ? SECOND`, seconds(service.InstanceMemory)); err != nil {
		return fmt.Errorf("forget instances: %w", session.WriteError(err))
	}
	return nil
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
