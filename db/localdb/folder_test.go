package localdb_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"velocityd/db/localdb"
)

func TestFolderOfAnotherEngineIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, folder, binary, version string
		refused                       bool
	}{
		{"the other engine", "mariadb 10.11.19", "mysql", "10.11.19", true},
		{"an older version", "mysql 9.7.4", "mysql", "8.0.40", true},
		{"an older patch", "mysql 9.7.4", "mysql", "9.7.3", true},
		{"older as a number, not as text", "mariadb 10.11.4", "mariadb", "10.6.30", true},
		{"the same", "mysql 9.7.4", "mysql", "9.7.4", false},
		{"a newer one", "mariadb 10.6.30", "mariadb", "10.11.4", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := newFolder(t)
			madeFolder(t, dir, c.folder)
			b := localdb.Binary{
				Engine: localdb.Engine(c.binary), Version: c.version,
				Path: script(t, "server", "echo was run; exit 1"),
			}
			_, err := localdb.Start(t.Context(), localdb.Options{Dir: dir, Binary: b})
			if c.refused {
				wantErr(t, err, localdb.ErrWrongEngine, dir, c.folder)
			} else {
				wantErr(t, err, nil, "was run")
			}
		})
	}
}

func TestFolderWithForeignFilesIsRefusedUntouched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // that it stays so is the claim
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "letter.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := localdb.Start(
		t.Context(), localdb.Options{Dir: dir, Binary: localdb.Binary{Engine: localdb.MySQL, Path: "/bin/false"}})
	wantErr(t, err, nil, dir, "letter.txt")
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode is %v (%v), want it as it was", info.Mode(), err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("folder holds %v, want the letter alone", entries)
	}
}

func TestFailedInitialisationLeavesNoDataAndShowsLog(t *testing.T) {
	t.Parallel()
	dir := newFolder(t)
	broken := localdb.Binary{
		Engine: localdb.MySQL, Version: "1.0.0",
		Path: script(t, "mysqld", `for a; do case $a in --datadir=*) mkdir "${a#*=}"; esac; done; echo disk is full; exit 3`),
	}
	_, err := localdb.Start(t.Context(), localdb.Options{Dir: dir, Binary: broken})
	wantErr(t, err, nil, "disk is full", "exit status 3")
	for _, name := range []string{"data", "engine", "init.*"} {
		if found, _ := filepath.Glob(filepath.Join(dir, name)); len(found) > 0 {
			t.Errorf("left behind: %v", found)
		}
	}
}

func TestInitialisationKilledHalfWayIsBegunAgain(t *testing.T) {
	onEachEngine(t, func(t *testing.T, b localdb.Binary) {
		dir := newFolder(t)
		madeFolder(t, dir, string(b.Engine)+" "+b.Version)
		if err := os.Rename(filepath.Join(dir, "data"), filepath.Join(dir, "init.1234")); err != nil {
			t.Fatal(err)
		}
		start(t, localdb.Options{Dir: dir, Binary: b})
		if found, _ := filepath.Glob(filepath.Join(dir, "init.*")); len(found) > 0 {
			t.Errorf("left behind: %v", found)
		}
	})
}

func TestFindTrustsProgramOutputNotItsName(t *testing.T) {
	// Not parallel: it sets PATH.
	link := script(t, "mysqld", "echo 'mysqld  Ver 10.11.19-MariaDB-0 for debian-linux-gnu on x86_64 (Debian 12)'")
	broken := script(t, "mysqld", "exit 1")
	real := script(t, "mysqld", "echo '/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))'")
	path := ""
	for _, program := range []string{link, broken, real} {
		path += filepath.Dir(program) + string(os.PathListSeparator)
	}
	t.Setenv("PATH", path)
	got, err := localdb.Find(t.Context(), localdb.MySQL)
	want := localdb.Binary{Engine: localdb.MySQL, Path: real, Version: "9.7.4"}
	if err != nil || got != want {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
}

func TestFindTellsTheSeriesApart(t *testing.T) {
	// Not parallel: it sets PATH.
	path, programs := "", map[string]string{}
	for _, version := range []string{"77.10.11", "77.8.6"} {
		programs[version] = script(t, "mariadbd", "echo 'mariadbd  Ver "+version+"-MariaDB-0 for debian-linux-gnu on x86_64'")
		path += filepath.Dir(programs[version]) + string(os.PathListSeparator)
	}
	t.Setenv("PATH", path)
	got, err := localdb.Find(t.Context(), "mariadb-77.8")
	if err != nil || got.Path != programs["77.8.6"] {
		t.Errorf("got %+v (%v), want %s", got, err, programs["77.8.6"])
	}
	if got, err := localdb.Find(t.Context(), "mariadb-77.1"); !errors.Is(err, localdb.ErrNotFound) {
		t.Errorf("got %+v (%v), which is of the series 77.10", got, err)
	}
}

func TestFindLooksIntoCacheFilledByScript(t *testing.T) {
	// Not parallel: it sets the environment.
	cache := t.TempDir()
	program := filepath.Join(cache, "engines", "other", "mysqld")
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho 'mysqld  Ver 1.2.3'\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Setenv("VELOCITY_CACHE", cache)
	t.Setenv("PATH", "")
	_, err := localdb.Find(t.Context(), "other") // an engine that no machine has
	wantErr(t, err, localdb.ErrNotFound, "other", "engines.sh")
}

func TestFindEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := localdb.FindAny(ctx)
	wantErr(t, err, context.Canceled)
}
