package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"velocityd/api"
	"velocityd/service"
)

const (
	// refreshPause is the mean time between two looks at the zones. Each pause is between
	// half and one and a half of it, so that instances do not look at the same time.
	refreshPause = 3 * time.Second
	// refreshTimeout bounds one look.
	refreshTimeout = 2 * time.Second
)

// zoneMemory knows all zones as they were last seen. It is a service.ZoneLister that
// remembers what it lists in a state folder.
type zoneMemory struct {
	lister service.ZoneLister
	file   *stateFile
	learn  func([]service.Zone) // is told the zones when others are seen

	mu   sync.Mutex     // of what follows, of learn and of file, so that both are told in one order
	seen []service.Zone // last; nil: none
}

const zonesFile = "zones.json"

// zoneState is what the file holds.
type zoneState struct {
	Version int        `json:"version"`
	Zones   []api.Zone `json:"zones"`
}

// newZoneMemory returns a memory of the zones of lister. Without a folder, which is nil then, it
// remembers none across a restart.
func newZoneMemory(lister service.ZoneLister, folder *stateFolder, learn func([]service.Zone)) *zoneMemory {
	return &zoneMemory{lister: lister, learn: learn, file: folder.file(zonesFile, "the zones")}
}

// Zones lists the zones of the database and remembers them.
func (m *zoneMemory) Zones(ctx context.Context) ([]service.Zone, error) {
	zones, err := m.lister.Zones(ctx)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen != nil && slices.Equal(m.seen, zones) {
		return zones, nil // many zones cost much to learn and to write
	}
	m.learn(zones)
	m.file.remember(zoneState{stateVersion, api.NewZones(zones).Zones})
	m.seen = slices.Clone(zones)
	return zones, nil
}

// recall takes the zones of the file for those of the database, until that is seen.
func (m *zoneMemory) recall() {
	var held zoneState
	m.file.recall(&held, func() error {
		zones, err := held.list()
		if err == nil {
			m.learn(zones)
		}
		return err
	})
}

// keep refreshes the memory every few seconds until ctx ends.
func (m *zoneMemory) keep(ctx context.Context) {
	for {
		timer := time.NewTimer(refreshPause/2 + rand.N(refreshPause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		_, _ = m.refresh(ctx) // readiness reports an error, and what is known stays
	}
}

// refresh is Zones with a deadline of its own.
func (m *zoneMemory) refresh(ctx context.Context) ([]service.Zone, error) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	return m.Zones(ctx)
}

// list returns the zones, or an error that names the first wrong one.
func (s zoneState) list() ([]service.Zone, error) {
	zones := make([]service.Zone, len(s.Zones))
	for i, z := range s.Zones {
		zones[i] = z.Zone().WithDefaults()
		if err := zones[i].Validate(); err != nil {
			return nil, fmt.Errorf("zone %d: %w", z.ID, err)
		}
	}
	return zones, nil
}
