package server

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"velocityd/db/records"
	"velocityd/service"
	"velocityd/service/access"
)

// listed is a list of zones that may fail.
type listed struct {
	zones  []service.Zone
	readAt time.Time
	err    error
}

func (l *listed) RenewZones(context.Context, records.ZoneList) (records.ZoneList, error) {
	return records.ZoneList{Zones: l.zones, ReadAt: l.readAt}, l.err
}

// remembering returns a memory on a folder, the zones that it has learned last, and its log.
func remembering(t *testing.T, path string, from *listed) (m *zoneMemory, learned *[]service.Zone, log *bytes.Buffer) {
	t.Helper()
	log, learned = new(bytes.Buffer), new([]service.Zone)
	if err := openState(path); err != nil {
		t.Fatal(err)
	}
	file := newStateFile(path, zonesFile, "the zones", slog.New(slog.NewTextHandler(log, nil)))
	m = &zoneMemory{reader: from, file: file, learn: func(zones []service.Zone) { *learned = zones }}
	m.recall()
	return m, learned, log
}

// refreshMemory lets a memory look at the zones, and its folder write its content.
func refreshMemory(t *testing.T, m *zoneMemory) {
	t.Helper()
	_, _ = m.refresh(t.Context()) // the database may be away
	m.file.write()
}

// spelt are zones with all settings spelt out, as a database lists them.
func spelt() []service.Zone {
	zones := []service.Zone{
		{ID: 1, Rate: 50, Window: time.Hour},
		{
			ID: 2, Rate: 50, Window: time.Hour, OnFailure: service.OnFailureAllow,
			Keys: service.KeyRule{Kind: service.KeyUsername},
		},
		{ID: 3, Rate: 50, Window: time.Hour, OnFailure: service.OnFailureBlock},
	}
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
	if err := os.WriteFile(filepath.Join(path, zonesFile+".new"), []byte("left by a killed writer"), 0o600); err != nil {
		t.Fatal(err)
	}
	refreshMemory(t, m)
	if len(*learned) != 0 || log.String() != "" {
		t.Errorf("a new folder taught %+v, logged %s", *learned, log)
	}
	from.zones, from.err = zones, nil
	refreshMemory(t, m)
	file := filepath.Join(path, zonesFile)
	before, err := os.Stat(file)
	if err != nil || before.Mode().Perm() != 0o600 {
		t.Fatalf("%+v, %v", before, err)
	}
	from.err = service.ErrBusy // known zones stay
	refreshMemory(t, m)
	m, learned, _ = remembering(t, path, from)
	if !slices.EqualFunc(*learned, zones, func(a, b service.Zone) bool { b.Revision = a.Revision; return a == b }) {
		t.Errorf("remembered %+v", *learned)
	}
	from.err = nil
	refreshMemory(t, m)
	if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) {
		t.Errorf("zones that have not changed were written again (%v)", err)
	}
	from.zones = nil // all were deleted
	refreshMemory(t, m)
	if _, learned, _ = remembering(t, path, from); len(*learned) != 0 {
		t.Errorf("deleted zones are remembered: %+v", *learned)
	}
	if left, _ := filepath.Glob(filepath.Join(path, "*")); len(left) != 1 {
		t.Errorf("the folder holds %q", left)
	}
}

func TestOvertakenReadingTeachesNothing(t *testing.T) {
	t.Parallel()
	now := time.Now()
	from := &listed{zones: spelt(), readAt: now}
	m, learned, _ := remembering(t, t.TempDir(), from)
	refreshMemory(t, m)
	from.zones, from.readAt = spelt()[:1], now.Add(-time.Second)
	refreshMemory(t, m)
	if len(*learned) != len(spelt()) {
		t.Errorf("learned %+v of an older reading", *learned)
	}
}

func TestDamagedMemoryIsIgnoredAndSaidToBe(t *testing.T) {
	t.Parallel()
	path, from := t.TempDir(), &listed{zones: spelt()}
	m, _, _ := remembering(t, path, from)
	refreshMemory(t, m)
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
		refreshMemory(t, m)
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

func TestUnwritableStateFolderIsReportedOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	m, learned, log := remembering(t, path, &listed{zones: spelt()})
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		refreshMemory(t, m)
	}
	if len(*learned) != 3 || strings.Count(log.String(), "not remembered across a restart") != 1 {
		t.Errorf("learned %d zones, logged\n%s", len(*learned), log)
	}
}

func TestAFIFOInTheStateFolderIsNotBelieved(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(path, zonesFile), 0o600); err != nil {
		t.Fatal(err)
	}
	m, learned, log := remembering(t, path, &listed{zones: spelt()})
	if len(*learned) != 0 || !strings.Contains(log.String(), "no regular file") {
		t.Errorf("a FIFO: learned %+v, logged %s", *learned, log)
	}
	refreshMemory(t, m)
	if info, err := os.Stat(filepath.Join(path, zonesFile)); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the FIFO is still there: %v, %v", info, err)
	}
}

// issued are credentials.
type issued []access.Credential

func (c issued) LiveCredentials(context.Context) ([]access.Credential, time.Time, error) {
	return c, time.Now(), nil
}

func (issued) UseCredential(context.Context, uint64) error { return nil }

func TestCallersAreWrittenInBackgroundByTheEnd(t *testing.T) {
	t.Parallel()
	callers := issued{
		access.NewTokenCredential(access.NewToken(), access.Caller{Name: "shop", Scopes: []access.Scope{access.ScopeCheck}}),
		access.NewTokenCredential(access.NewToken(),
			access.Caller{Name: "desk", Scopes: []access.Scope{access.ScopePeek}, Zones: []int64{1, 2}}),
	}
	callers[1].ExpiresAt.Time = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	path := t.TempDir()
	remembered := func() *credentialMemory {
		return &credentialMemory{
			Store: callers,
			file:  newStateFile(path, credentialsFile, "the callers", slog.New(slog.DiscardHandler)),
		}
	}
	m := remembered()
	if _, _, err := m.LiveCredentials(t.Context()); err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(filepath.Join(path, "*")); len(files) != 0 {
		t.Errorf("the reading has written %q", files)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	m.file.keep(ended) // as it does when the service ends
	m = remembered()
	if got := m.recall(); !slices.EqualFunc(got, callers, func(a, b access.Credential) bool {
		b.Shown = "" // it is of no use to readers of callers
		return reflect.DeepEqual(a, b)
	}) {
		t.Errorf("remembered %+v", got)
	}
}
