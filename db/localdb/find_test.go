package localdb_test

import (
	"context"
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

func TestFindPassesOverAMariaDBWithoutItsInstaller(t *testing.T) {
	// Not parallel: it sets PATH.
	version := "echo 'mariadbd  Ver 10.11.19-MariaDB-0 for debian-linux-gnu on x86_64 (Debian 12)'"
	bare, whole := script(t, "mariadbd", version), script(t, "mariadbd", version)
	if err := os.WriteFile(filepath.Join(filepath.Dir(whole), "mariadb-install-db"), []byte("#!/bin/sh\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(whole))
	if got, err := localdb.Find(t.Context(), localdb.MariaDB); err != nil || got.Path != whole {
		t.Errorf("got %+v (%v), want %s", got, err, whole)
	}
	t.Setenv("PATH", filepath.Dir(bare))
	if got, err := localdb.Find(t.Context(), localdb.MariaDB); got.Path == bare {
		t.Errorf("got %+v (%v), which cannot initialise a folder", got, err)
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
