package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

// listed is a list of zones that may fail.
type listed struct {
	zones []service.Zone
	err   error
}

func (l *listed) Zones(context.Context) ([]service.Zone, error) { return l.zones, l.err }

// remembering returns a memory on a folder, what it has learned last, and its log.
func remembering(t *testing.T, path string, from *listed) (m *zoneMemory, learned *[]service.Zone, log *output) {
	t.Helper()
	log, learned = newOutput(), new([]service.Zone)
	m = &zoneMemory{
		lister: from, logger: slog.New(slog.NewTextHandler(log, nil)), learn: func(zones []service.Zone) { *learned = zones },
	}
	folder, err := openState(path)
	if err != nil {
		t.Fatal(err)
	}
	m.recall(folder)
	return m, learned, log
}

// spelt are zones with all settings spelt out, as a database lists them.
func spelt() []service.Zone {
	zones := onFailureZones()
	for i := range zones {
		zones[i] = zones[i].WithDefaults()
		zones[i].Revision = uint64(i + 1)
	}
	return zones
}

func TestZonesAreRememberedAcrossARestart(t *testing.T) {
	t.Parallel()
	path, zones := filepath.Join(t.TempDir(), "a", "b"), spelt()
	from := &listed{err: service.ErrBusy}
	m, learned, log := remembering(t, path, from)
	m.refresh(t.Context())
	if len(*learned) != 0 || log.String() != "" {
		t.Errorf("a new folder taught %+v, logged %s", *learned, log)
	}
	from.zones, from.err = zones, nil
	m.refresh(t.Context())
	file := filepath.Join(path, zonesFile)
	before, err := os.Stat(file)
	if err != nil || before.Mode().Perm() != 0o600 {
		t.Fatalf("%+v, %v", before, err)
	}
	from.err = service.ErrBusy // what is known stays
	m.refresh(t.Context())
	_, learned, _ = remembering(t, path, from)
	if !slices.EqualFunc(*learned, zones, func(a, b service.Zone) bool { b.Revision = a.Revision; return a == b }) {
		t.Errorf("remembered %+v", *learned)
	}
	from.err = nil
	m.refresh(t.Context())
	if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) {
		t.Errorf("zones that have not changed were written again (%v)", err)
	}
	from.zones = nil // all were deleted
	m.refresh(t.Context())
	if _, learned, _ = remembering(t, path, from); len(*learned) != 0 {
		t.Errorf("deleted zones are remembered: %+v", *learned)
	}
	if left, _ := filepath.Glob(filepath.Join(path, "*")); len(left) != 1 {
		t.Errorf("the folder holds %q", left)
	}
}

func TestDamagedMemoryIsIgnoredAndSaidToBe(t *testing.T) {
	t.Parallel()
	path, from := t.TempDir(), &listed{zones: spelt()}
	m, _, _ := remembering(t, path, from)
	m.refresh(t.Context())
	file := filepath.Join(path, zonesFile)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(good)
	for name, c := range map[string]struct{ text, want string }{
		"empty":           {"", "damaged"},
		"cut":             {text[:len(text)/2], "damaged"},
		"another version": {strings.Replace(text, `"version":1`, `"version":2`, 1), "version 2"},
		"a rule broken":   {strings.Replace(text, `"rate":50`, `"rate":-1`, 1), "zone 1"},
		"another word":    {strings.Replace(text, `"allow"`, `"open"`, 1), "on_failure"},
		"another thing":   {`[]`, "damaged"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, learned, log := remembering(t, path, from)
		if len(*learned) != 0 || !strings.Contains(log.String(), c.want) || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%s: learned %+v, logged %s", name, *learned, log)
		}
		m.refresh(t.Context())
		if now, err := os.ReadFile(file); err != nil || string(now) != text {
			t.Errorf("%s: not written anew: %s, %v", name, now, err)
		}
	}
	if err := os.Chmod(file, 0o620); err != nil { //nolint:gosec // that is the point
		t.Fatal(err)
	}
	if _, learned, log := remembering(t, path, from); len(*learned) != 0 || !strings.Contains(log.String(), "0620") {
		t.Errorf("a file that others may write: learned %+v, logged %s", *learned, log)
	}
}

func TestStateFolderThatCannotBeWrittenIsSaidOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	m, learned, log := remembering(t, path, &listed{zones: spelt()})
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		m.refresh(t.Context())
	}
	if len(*learned) != 3 || strings.Count(log.String(), "not remembered across a restart") != 1 {
		t.Errorf("learned %d zones, logged\n%s", len(*learned), log)
	}
	taken := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := command(environment{"VELOCITY_DSN": "u@tcp(127.0.0.1:1)/d"}, nil, "serve", "--listen", "127.0.0.1:0", "--state-dir", taken)
	if r.code != exitError || !strings.Contains(r.stderr, "--state-dir") {
		t.Errorf("got %+v", r)
	}
}

func TestRestsOfAKilledWriterAreRemoved(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	rest := filepath.Join(path, zonesFile+".123")
	if err := os.WriteFile(rest, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openState(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(rest); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestDegradedAfterMustBeBelowTheDeadline(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, -time.Second, time.Microsecond, 5 * time.Second, time.Minute} {
		r := command(environment{"VELOCITY_DSN": "u@tcp(127.0.0.1:1)/d"}, nil, "serve", "--degraded-after", after.String())
		if r.code != exitUsage || !strings.Contains(r.stderr, "--degraded-after") {
			t.Errorf("%s: %+v", after, r)
		}
	}
}
