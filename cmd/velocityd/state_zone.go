package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
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

// zoneMemory keeps all zones as they were last seen. It is a service.ZoneLister that
// remembers what it lists.
type zoneMemory struct {
	lister service.ZoneLister
	logger *slog.Logger
	learn  func([]service.Zone) // is told the zones each time they are seen
	folder *stateFolder         // nil: they are not written

	mu   sync.Mutex
	seen []service.Zone // nil: never

	// For recall and refresh alone, which are not called at the same time.
	written []service.Zone // what the folder holds; nil: nothing of use
	failing bool           // the last writing has failed
}

// Zones lists the zones of the database and remembers them.
func (m *zoneMemory) Zones(ctx context.Context) ([]service.Zone, error) {
	zones, err := m.lister.Zones(ctx)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = append([]service.Zone{}, zones...) // not nil
	m.learn(m.seen)
	return zones, nil
}

// recall takes the zones of the folder for those of the database, until that is seen. If the
// folder holds nothing of use, recall logs why.
func (m *zoneMemory) recall(folder *stateFolder) {
	m.folder = folder
	zones, err := folder.readZones()
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		m.logger.LogAttrs(context.Background(), slog.LevelWarn,
			"ignoring the remembered zones: no check is answered without the database before it has been seen", slog.String("error", err.Error()))
	default:
		m.written = zones
		m.learn(zones)
	}
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
		m.refresh(ctx)
	}
}

// refresh lists the zones, and writes what has been seen to the folder if it has changed. While
// the database is away it keeps what is known.
func (m *zoneMemory) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	_, _ = m.Zones(ctx) // readiness reports an error
	m.mu.Lock()
	seen := m.seen
	m.mu.Unlock()
	if m.folder == nil || seen == nil || m.written != nil && slices.Equal(seen, m.written) {
		return
	}
	err := m.folder.write(zonesFile, zoneState{stateVersion, api.NewZones(seen).Zones})
	switch {
	case err == nil:
		m.written, m.failing = seen, false
	case !m.failing:
		m.failing = true
		m.logger.LogAttrs(ctx, slog.LevelWarn, "the zones are not remembered across a restart", slog.String("error", err.Error()))
	}
}

const zonesFile = "zones.json"

// zoneState is what the file holds.
type zoneState struct {
	Version int        `json:"version"`
	Zones   []api.Zone `json:"zones"`
}

// readZones returns the zones that were written last. Its errors are those of read.
func (f *stateFolder) readZones() ([]service.Zone, error) {
	var held zoneState
	if err := f.read(zonesFile, &held); err != nil {
		return nil, err
	}
	zones := make([]service.Zone, len(held.Zones))
	for i, z := range held.Zones {
		zones[i] = z.Zone().WithDefaults()
		if err := zones[i].Validate(); err != nil {
			return nil, fmt.Errorf("%s is damaged: zone %d: %w", zonesFile, z.ID, err)
		}
	}
	return zones, nil
}
