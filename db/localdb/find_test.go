package localdb_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"velocityd/db/localdb"
)

func TestFindGoesByWhatAProgramSaysNotByItsName(t *testing.T) {
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

func TestFindLooksIntoTheCacheThatTheScriptFills(t *testing.T) {
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
