package localdb

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestClientIsEnginesOwnOrFromPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"own/mysql", "own/mariadb", "other/mysql", "usual/mysqld", "usual/mysql"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil { //nolint:gosec // a program is executable
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		engine Engine
		folder string            // of the server's program
		path   map[string]string // what PATH finds
		want   string
		found  bool
	}{
		"MariaDB's own": {
			MariaDB, "own",
			map[string]string{"mysql": "/usr/bin/mysql"},
			filepath.Join(dir, "own/mariadb"), true,
		},
		"MySQL's own": {
			MySQL, "own",
			map[string]string{"mariadb": "/usr/bin/mariadb"},
			filepath.Join(dir, "own/mysql"), true,
		},
		"the one that PATH has, too": {
			MySQL, "usual",
			map[string]string{"mysql": filepath.Join(dir, "usual/mysql")},
			"mysql",
			true,
		},
		"another than that of PATH": {
			MySQL, "usual",
			map[string]string{"mysql": "/usr/bin/mysql"},
			filepath.Join(dir, "usual/mysql"), true,
		},
		"MariaDB's on PATH": {MariaDB, "none", map[string]string{
			"mysql":   "/usr/bin/mysql",
			"mariadb": "/usr/bin/mariadb",
		}, "mariadb", true},
		"MySQL's on PATH for MariaDB": {MariaDB, "none", map[string]string{"mysql": "/usr/bin/mysql"}, "mysql", true},
		"MariaDB's on PATH for MySQL": {MySQL, "none", map[string]string{"mariadb": "/usr/bin/mariadb"}, "mariadb", true},
		"no client for MariaDB":       {MariaDB, "none", nil, "mariadb", false},
		"no client for MySQL":         {MySQL, "none", nil, "mysql", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lookPath := func(name string) (string, error) {
				if found := c.path[name]; found != "" {
					return found, nil
				}
				return "", exec.ErrNotFound
			}
			b := Binary{Engine: c.engine, Path: filepath.Join(dir, c.folder, "mysqld")}
			if got, found := b.client(lookPath); got != c.want || found != c.found {
				t.Errorf("got %s, %v, want %s, %v", got, found, c.want, c.found)
			}
		})
	}
}
