package server

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"velocityd/db/records"
	"velocityd/service"
)

const (
	// refreshPause is the mean time between two looks at the zones.
	refreshPause = 3 * time.Second
	// refreshTimeout bounds one look.
	refreshTimeout = 2 * time.Second
)

// zoneMemory knows all zones as they were last seen. It is a service.ZoneLister that
// remembers its list in a state folder.
type zoneMemory struct {
	reader zoneReader
	file   *stateFile
	learn  func([]service.Zone) // is told the zones when others are seen

	mu   sync.Mutex       // of seen, of learn and of file, so that both are told in one order
	seen records.ZoneList // last; its zones are not changed
}

// zoneReader reads all zones, or only those that have changed since a list was read.
type zoneReader interface {
	RenewZones(ctx context.Context, known records.ZoneList) (records.ZoneList, error)
}

const zonesFile = "zones.json"

// Zones lists the zones of the database, all of which it reads, and remembers them.
func (m *zoneMemory) Zones(ctx context.Context) ([]service.Zone, error) {
	return m.renew(ctx, records.ZoneList{})
}

// renew lists the zones by reading those that have changed since known, and remembers them.
func (m *zoneMemory) renew(ctx context.Context, known records.ZoneList) ([]service.Zone, error) {
	now, err := m.reader.RenewZones(ctx, known)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.ReadAt.Before(m.seen.ReadAt) {
		return now.Zones, nil // all zones were read meanwhile
	}
	isSame := m.seen.Zones != nil && slices.Equal(m.seen.Zones, now.Zones)
	m.seen = now
	if !isSame { // many zones cost much to learn and to write
		m.learn(now.Zones)
		m.file.remember(now.Zones)
	}
	return now.Zones, nil
}

// recall learns the zones of the file. They hold until the database has been read.
func (m *zoneMemory) recall() {
	var held []service.Zone
	m.file.recall(&held, func() error {
		zones, err := listZones(held)
		if err == nil {
			m.learn(zones)
		}
		return err
	})
}

// keep refreshes the memory every few seconds until ctx ends.
func (m *zoneMemory) keep(ctx context.Context) {
	poll[any](ctx, about(refreshPause), nil, func(bool) {
		_, _ = m.refresh(ctx) // readiness reports an error, and the known zones stay
	})
}

// refresh brings the memory up to date, within refreshTimeout.
func (m *zoneMemory) refresh(ctx context.Context) ([]service.Zone, error) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	m.mu.Lock()
	known := m.seen
	m.mu.Unlock()
	return m.renew(ctx, known)
}

// listZones returns the zones that the file holds, or an error that names the first wrong one.
func listZones(held []service.Zone) ([]service.Zone, error) {
	zones := make([]service.Zone, len(held))
	for i, z := range held {
		zones[i] = z.WithDefaults()
		if err := zones[i].Validate(); err != nil {
			return nil, fmt.Errorf("zone %d: %w", z.ID, err)
		}
	}
	return zones, nil
}
