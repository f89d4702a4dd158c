package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"velocityd/service"
	"velocityd/service/audit"
)

// Zones returns all zones by id, with all defaults filled in.
func (m *Store) Zones(context.Context) ([]service.Zone, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.zones), func(a, b service.Zone) int { return cmp.Compare(a.ID, b.ID) }), nil
}

// Zone returns one zone, or service.ErrNotFound.
func (m *Store) Zone(_ context.Context, id int64) (service.Zone, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.zone(id)
}

func (m *Store) zone(id int64) (service.Zone, error) {
	zone, ok := m.zones[id]
	if !ok {
		return service.Zone{}, fmt.Errorf("zone %d: %w", id, service.ErrNotFound)
	}
	return zone, nil
}

// PutZone creates a zone or replaces all of it, and returns the stored zone. It returns
// ErrInvalid, or ErrPrecondition if match fails.
func (m *Store) PutZone(
	ctx context.Context, zone service.Zone, match service.Match, principal string,
) (service.Zone, error) {
	if err := zone.Validate(); err != nil {
		return service.Zone{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.matches(zone.ID, match); err != nil {
		return service.Zone{}, err
	}
	m.audit(Audit{ZoneID: zone.ID, Action: "put zone", Principal: principal, Reason: service.StatedReason(ctx)})
	return m.put(zone), nil
}

func (m *Store) put(zone service.Zone) service.Zone {
	zone = zone.WithDefaults()
	zone.Revision = m.zones[zone.ID].Revision + 1
	m.note(audit.Edit{ZoneBefore: m.zoneNow(zone.ID), ZoneAfter: &zone})
	m.zones[zone.ID] = zone
	return zone
}

func (m *Store) matches(id int64, match service.Match) error {
	zone, ok := m.zones[id]
	if match.Absent && ok || match.Present && !ok || match.Revision != 0 && match.Revision != zone.Revision {
		return fmt.Errorf("zone %d: %w", id, service.ErrPrecondition)
	}
	return nil
}

// DeleteZone removes a zone and its overrides; its txns stay. It returns
// ErrNotFound, or ErrPrecondition if match fails.
func (m *Store) DeleteZone(ctx context.Context, id int64, match service.Match, principal string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.zone(id); err != nil {
		return err
	}
	if err := m.matches(id, match); err != nil {
		return err
	}
	m.drop(id)
	m.audit(Audit{ZoneID: id, Action: "delete zone", Principal: principal, Reason: service.StatedReason(ctx)})
	return nil
}

func (m *Store) drop(id int64) {
	m.dropOverrides(func(o service.Override) bool { return o.ZoneID == id })
	m.note(audit.Edit{ZoneBefore: m.zoneNow(id)})
	delete(m.zones, id)
}

// TB is the part of testing.TB by which SetZone ends a test. It is named here, so that importers do not import testing
// by this room.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// SetZone creates a zone, or replaces all its settings, as PutZone does. It ends the test if the zone is not valid, and
// it leaves no audit.
func (m *Store) SetZone(tb TB, zone service.Zone) {
	tb.Helper()
	if err := zone.Validate(); err != nil {
		tb.Fatalf("set zone %d: %v", zone.ID, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(zone)
}
