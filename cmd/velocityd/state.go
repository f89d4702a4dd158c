package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
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
	zones, err := folder.read()
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
	err := m.folder.write(seen)
	switch {
	case err == nil:
		m.written, m.failing = seen, false
	case !m.failing:
		m.failing = true
		m.logger.LogAttrs(ctx, slog.LevelWarn, "the zones are not remembered across a restart", slog.String("error", err.Error()))
	}
}

// stateFolder is a folder of the service's own. It holds settings of zones, and no keys,
// attempts or passwords.
type stateFolder struct {
	path string
}

const (
	stateFile = "zones.json"
	// stateVersion is that of the file's form. A program ignores files of other versions.
	stateVersion = 1
)

// state is what the file holds.
type state struct {
	Version int        `json:"version"`
	Zones   []api.Zone `json:"zones"`
}

// openState returns the folder at path, which it makes if it is missing. It removes what a
// program that was killed while it wrote has left there.
func openState(path string) (*stateFolder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(path, stateFile+".*"))
	if err != nil {
		return nil, fmt.Errorf("look into the state folder: %w", err)
	}
	for _, name := range left {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("clear the state folder: %w", err)
		}
	}
	return &stateFolder{path: path}, nil
}

// read returns the zones that were written last. The error wraps fs.ErrNotExist if there are
// none.
func (f *stateFolder) read() ([]service.Zone, error) {
	name := filepath.Join(f.path, stateFile)
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("look at remembered zones: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s can be written by other users (mode %04o)", name, info.Mode().Perm())
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read remembered zones: %w", err)
	}
	var held state
	if err := json.Unmarshal(text, &held); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", name, err)
	}
	if held.Version != stateVersion {
		return nil, fmt.Errorf("%s has version %d, and this program reads %d", name, held.Version, stateVersion)
	}
	zones := make([]service.Zone, len(held.Zones))
	for i, z := range held.Zones {
		zones[i] = z.Zone().WithDefaults()
		if err := zones[i].Validate(); err != nil {
			return nil, fmt.Errorf("%s is damaged: zone %d: %w", name, z.ID, err)
		}
	}
	return zones, nil
}

// write replaces the file in one step: after a crash it is the old one or the new one.
func (f *stateFolder) write(zones []service.Zone) (err error) {
	text, err := json.Marshal(state{Version: stateVersion, Zones: api.NewZones(zones).Zones})
	if err != nil {
		return fmt.Errorf("encode zones: %w", err)
	}
	temporary, err := os.CreateTemp(f.path, stateFile+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("write zones: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name())
		}
	}()
	_, err = temporary.Write(text)
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return fmt.Errorf("write zones: %w", err)
	}
	if err := os.Rename(temporary.Name(), filepath.Join(f.path, stateFile)); err != nil {
		return fmt.Errorf("write zones: %w", err)
	}
	return f.sync()
}

// sync makes the name of the new file last.
func (f *stateFolder) sync() error {
	folder, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("sync state folder: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("sync state folder: %w", err)
	}
	return nil
}
