package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"velocityd/service"
	"velocityd/service/audit"
)

// Overrides returns at most limit overrides of a zone with ids above after, by id. It
// includes expired ones. It returns ErrNotFound for an unknown zone.
func (m *Store) Overrides(_ context.Context, zoneID int64, after uint64, limit int) ([]service.Override, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.zone(zoneID); err != nil {
		return nil, err
	}
	overrides := []service.Override{}
	for _, o := range m.overrides {
		if o.ZoneID == zoneID && o.ID > after && len(overrides) < limit {
			overrides = append(overrides, o)
		}
	}
	return overrides, nil
}

// Override returns one override, or ErrNotFound.
func (m *Store) Override(_ context.Context, zoneID int64, id uint64) (service.Override, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, err := m.overrideIndex(zoneID, id)
	if err != nil {
		return service.Override{}, err
	}
	return m.overrides[i], nil
}

func (m *Store) overrideIndex(zoneID int64, id uint64) (int, error) {
	i := slices.IndexFunc(m.overrides, func(o service.Override) bool { return o.ZoneID == zoneID && o.ID == id })
	if i < 0 {
		return 0, fmt.Errorf("override %d of zone %d: %w", id, zoneID, service.ErrNotFound)
	}
	return i, nil
}

// AddOverride adds an override, and removes an expired one of the same key or prefix.
// It returns ErrInvalid, ErrNotFound for an unknown zone, or ErrConflict if the zone has
// an override of the same key or prefix that has not expired.
func (m *Store) AddOverride(ctx context.Context, o service.Override, principal string) (service.Override, error) {
	if err := o.Validate(); err != nil {
		return service.Override{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.addNew(ctx, o, principal)
}

// addNew is AddOverride under the lock.
func (m *Store) addNew(ctx context.Context, o service.Override, principal string) (service.Override, error) {
	if _, err := m.zone(o.ZoneID); err != nil {
		return service.Override{}, err
	}
	o.ID, o.CreatedBy = 0, cmp.Or(o.CreatedBy, principal)
	if err := m.makeRoom(o); err != nil {
		return service.Override{}, err
	}
	m.audit(
		Audit{ZoneID: o.ZoneID, Action: "add override", Key: o.Key, Principal: principal, Reason: service.StatedReason(ctx)})
	return m.add(o), nil
}

// ExtendOverride adds an override, or changes the one of the same key or prefix that is in force if
// service.Override.Extends says so, and returns the one that is in force then. It returns the errors of AddOverride.
func (m *Store) ExtendOverride(ctx context.Context, o service.Override, principal string) (service.Override, error) {
	if err := o.Validate(); err != nil {
		return service.Override{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	i := slices.IndexFunc(m.overrides, func(other service.Override) bool {
		return sameTarget(other, o) && !service.HasExpired(other.ExpiresAt.Time, now)
	})
	if i < 0 {
		return m.addNew(ctx, o, principal)
	}
	extends, err := o.Extends(m.overrides[i])
	if err != nil || !extends {
		return m.overrides[i], err
	}
	o.ID, o.CreatedBy = m.overrides[i].ID, cmp.Or(o.CreatedBy, principal)
	return m.replace(ctx, o, principal)
}

func (m *Store) add(o service.Override) service.Override {
	m.lastOverride++
	o.ID = m.lastOverride
	o.ExpiresAt.Time = o.ExpiresAt.UTC().Truncate(time.Microsecond)
	m.overrides = append(m.overrides, o)
	m.note(audit.Edit{OverrideAfter: &o})
	return o
}

// makeRoom removes an expired override of the same key or prefix as o, and
// returns ErrConflict if there is another one that has not expired.
func (m *Store) makeRoom(o service.Override) error {
	now := m.now()
	for _, other := range m.overrides {
		if other.ID == o.ID || !sameTarget(other, o) {
			continue
		}
		if other.ExpiresAt.IsZero() || now.Before(other.ExpiresAt.Time) {
			return fmt.Errorf("override %d has the same key or prefix: %w", other.ID, service.ErrConflict)
		}
		m.dropOverrides(func(o service.Override) bool { return o.ID == other.ID })
		return nil // a zone has only one override of a key or prefix
	}
	return nil
}

func sameTarget(a, b service.Override) bool {
	return a.ZoneID == b.ZoneID && a.Key == b.Key && a.Prefix == b.Prefix
}

// SetOverride replaces the override with the id of o. It returns ErrInvalid,
// ErrNotFound, or ErrConflict if another override has the same key or prefix. An empty
// CreatedBy keeps the stored one.
func (m *Store) SetOverride(ctx context.Context, o service.Override, principal string) (service.Override, error) {
	if err := o.Validate(); err != nil {
		return service.Override{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.replace(ctx, o, principal)
}

// replace is SetOverride under the lock.
func (m *Store) replace(ctx context.Context, o service.Override, principal string) (service.Override, error) {
	if _, err := m.overrideIndex(o.ZoneID, o.ID); err != nil {
		return service.Override{}, err
	}
	if err := m.makeRoom(o); err != nil {
		return service.Override{}, err
	}
	i, err := m.overrideIndex(o.ZoneID, o.ID) // makeRoom may have moved it
	if err != nil {
		return service.Override{}, err
	}
	o.CreatedBy = cmp.Or(o.CreatedBy, m.overrides[i].CreatedBy)
	o.ExpiresAt.Time = o.ExpiresAt.UTC().Truncate(time.Microsecond)
	m.note(audit.Edit{OverrideBefore: new(m.overrides[i]), OverrideAfter: &o})
	m.overrides[i] = o
	m.audit(
		Audit{ZoneID: o.ZoneID, Action: "set override", Key: o.Key, Principal: principal, Reason: service.StatedReason(ctx)})
	return o, nil
}

// EndOverride removes one override as DeleteOverride does, if the context states the reason for which it was made.
func (m *Store) EndOverride(ctx context.Context, zoneID int64, id uint64, principal string) error {
	return m.removeOverride(ctx, zoneID, id, principal,
		func(o service.Override) error { return o.MayEnd(service.StatedReason(ctx)) })
}

// DeleteOverride removes one override, or returns ErrNotFound.
func (m *Store) DeleteOverride(ctx context.Context, zoneID int64, id uint64, principal string) error {
	return m.removeOverride(ctx, zoneID, id, principal, func(service.Override) error { return nil })
}

func (m *Store) removeOverride(
	ctx context.Context, zoneID int64, id uint64, principal string, may func(service.Override) error,
) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, err := m.overrideIndex(zoneID, id)
	if err == nil {
		err = may(m.overrides[i])
	}
	if err != nil {
		return err
	}
	m.audit(Audit{
		ZoneID: zoneID, Action: "delete override", Key: m.overrides[i].Key, Principal: principal,
		Reason: service.StatedReason(ctx),
	})
	m.dropOverrides(func(o service.Override) bool { return o.ID == id })
	return nil
}

// DeleteOverrides removes every override of a zone.
func (m *Store) DeleteOverrides(zoneID int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropOverrides(func(o service.Override) bool { return o.ZoneID == zoneID })
}

// ReplaceOverride adds an override in place of one of the same key or prefix. Unlike AddOverride it asks for no zone,
// and it leaves no audit.
func (m *Store) ReplaceOverride(o service.Override) error {
	if err := o.Validate(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropOverrides(func(other service.Override) bool { return sameTarget(other, o) })
	m.add(o)
	return nil
}
