package localdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ErrNotFound reports that the machine has no server program of the wanted engine. The error that wraps it
// names the package to install.
var ErrNotFound = errors.New("no database engine found")

// Engine is a kind of server that this package can run: a family, or one series of a
// family.
type Engine string

// The engines. The answer to --version names the engine of a program, and its file name does not:
// /usr/sbin/mysqld is often a link to mariadbd.
const (
	MariaDB Engine = "mariadb" // any series
	MySQL   Engine = "mysql"

	MariaDB1011 Engine = "mariadb-10.11"
	MariaDB118  Engine = "mariadb-11.8"
)

// Tested lists the engines that the project's tests run on.
func Tested() []Engine { return []Engine{MySQL, MariaDB1011, MariaDB118} }

// family returns MariaDB or MySQL, without the series.
func (e Engine) family() Engine {
	family, _, _ := strings.Cut(string(e), "-")
	return Engine(family)
}

// is reports whether a program is of this kind.
func (e Engine) is(b Binary) bool {
	_, series, _ := strings.Cut(string(e), "-")
	return b.Engine == e.family() && (series == "" || strings.HasPrefix(b.Version, series+"."))
}

// Binary is a server program that was found and has answered --version.
type Binary struct {
	Engine  Engine // its family: MariaDB or MySQL
	Path    string // absolute
	Version string // only numbers, such as "10.11.19"
}

// versionTimeout bounds one run of a program with --version.
const versionTimeout = 10 * time.Second

// installHint returns advice for a missing engine.
func (e Engine) installHint() string {
	switch e {
	case MySQL:
		return "run tools/engines.sh mysql, or put a MySQL mysqld on PATH"
	case MariaDB:
		return "run tools/engines.sh mariadb, or install the package mariadb-server-core"
	}
	return "run tools/engines.sh " + string(e)
}

// Find looks for a server program of the engine e: on PATH, in the folders where
// packages and vendors put it, and in the cache that tools/engines.sh fills
// (VELOCITY_CACHE, or velocityd in the user's cache folder). It returns the first
// program that says by --version that it is e. Find installs NOTHING and starts no
// server. The error wraps ErrNotFound or the context's error.
func Find(ctx context.Context, e Engine) (Binary, error) {
	seen := make(map[string]bool)
	for _, path := range candidates(e) {
		real, err := filepath.EvalSymlinks(path)
		if err != nil || seen[real] {
			continue
		}
		seen[real] = true
		b, err := identify(ctx, path)
		if ctx.Err() != nil {
			return Binary{}, fmt.Errorf("find %s: %w", e, ctx.Err())
		}
		if err == nil && e.is(b) {
			return b, nil
		}
	}
	return Binary{}, fmt.Errorf("find %s: %w: %s", e, ErrNotFound, e.installHint())
}

// FindAny is Find for any engine, MariaDB before MySQL. The error wraps ErrNotFound if
// there is neither.
func FindAny(ctx context.Context) (Binary, error) {
	b, err := Find(ctx, MariaDB)
	if !errors.Is(err, ErrNotFound) {
		return b, err
	}
	b, err = Find(ctx, MySQL)
	if errors.Is(err, ErrNotFound) {
		return Binary{}, fmt.Errorf("find mariadb or mysql: %w: %s; or run tools/engines.sh any", ErrNotFound,
			MariaDB.installHint())
	}
	return b, err
}

// candidates returns the existing files that may be a server of the engine e, the best
// first.
func candidates(e Engine) []string {
	names := []string{"mysqld"}
	if e.family() == MariaDB {
		names = []string{"mariadbd", "mysqld"}
	}
	dirs := append(filepath.SplitList(os.Getenv("PATH")),
		"/usr/sbin", "/usr/bin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin", "/usr/local/libexec",
		"/usr/local/mysql/bin", "/usr/local/mariadb/bin", "/opt/mysql/bin", "/opt/mariadb/bin",
		"/opt/homebrew/bin", "/opt/homebrew/opt/"+string(e.family())+"/bin")
	if cache := cacheDir(); cache != "" {
		dirs = append(dirs, filepath.Join(cache, "engines", string(e)), filepath.Join(cache, "engines", string(e.family())))
	}
	var found []string
	for _, dir := range dirs {
		for _, name := range names {
			if path := filepath.Join(dir, name); filepath.IsAbs(path) && isExecutable(path) {
				found = append(found, path)
			}
		}
	}
	return found
}

// cacheDir returns the folder into which tools/engines.sh unpacks, or "" if the user
// has none.
func cacheDir() string {
	if dir := os.Getenv("VELOCITY_CACHE"); dir != "" {
		return dir
	}
	dir := os.Getenv("XDG_CACHE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".cache")
	}
	return filepath.Join(dir, "velocityd")
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// identify asks a program for its engine and version.
func identify(ctx context.Context, path string) (Binary, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--no-defaults", "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return Binary{}, fmt.Errorf("ask %s for its version: %w", path, err)
	}
	_, rest, ok := strings.Cut(string(out), " Ver ")
	end := strings.IndexFunc(rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if !ok || end < 1 {
		return Binary{}, fmt.Errorf("ask %s for its version: unknown answer %q", path, out)
	}
	b := Binary{Engine: MySQL, Path: path, Version: rest[:end]}
	if strings.Contains(string(out), "MariaDB") {
		b.Engine = MariaDB
	}
	return b, nil
}
