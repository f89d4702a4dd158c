package service_test

// The import rule of the whole module is asserted here, and not in a package at
// the module's root, which would exist for this file alone: service is the room
// that the rule protects most, and its tests need no engine.

import (
	"encoding/json"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "velocityd"

// listed is what go list tells of a package.
type listed struct {
	ImportPath   string
	Standard     bool
	Module       struct{ Path string }
	Imports      []string // by production code
	TestImports  []string
	XTestImports []string
	Deps         []string // Imports, and what these import, and so on
}

// room is the package's path inside of this module, if it is of this module.
func (p listed) room() (string, bool) {
	return strings.CutPrefix(p.ImportPath, module+"/")
}

// packages lists every package of this module and all that they depend on.
func packages(t *testing.T) map[string]listed {
	t.Helper()
	noticeChanges(t)
	list := exec.CommandContext(t.Context(), "go", "list", "-deps",
		"-json=ImportPath,Standard,Module,Imports,TestImports,XTestImports,Deps", "./...")
	list.Dir = ".."
	var problems strings.Builder
	list.Stderr = &problems
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, problems.String())
	}
	all := map[string]listed{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p listed
		if err := dec.Decode(&p); err != nil {
			t.Fatalf("decode what go list says: %v", err)
		}
		all[p.ImportPath] = p
	}
	return all
}

// noticeChanges looks at every folder of the module, because go test repeats a
// cached result unless files that the test itself has looked at have changed.
func noticeChanges(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("..", func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." {
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRoomsImportOnlyWhatTheyMay(t *testing.T) {
	t.Parallel()
	all := packages(t)
	rules := rules()
	for room := range rules {
		if _, ok := all[module+"/"+room]; !ok {
			t.Errorf("room %s has a rule and does not exist", room)
		}
	}
	for _, p := range all {
		room, ok := p.room()
		if !ok {
			continue
		}
		allowed, ok := rules[room]
		if !ok {
			t.Errorf("room %s has no rule: decide what it may import and write it down here", room)
			continue
		}
		for _, dep := range p.Deps {
			if other, ok := all[dep].room(); ok && !slices.Contains(allowed.ours, other) {
				t.Errorf("room %s must not depend on %s, and does; of this module it may import %q", room, other, allowed.ours)
			}
		}
		for _, path := range p.Imports {
			if slices.Contains(allowed.never, path) {
				t.Errorf("room %s must not import %s", room, path)
			}
			other := all[path]
			if other.Standard || other.Module.Path == module || slices.Contains(allowed.theirs, "*") {
				continue
			}
			if !slices.Contains(allowed.theirs, other.Module.Path) {
				t.Errorf("room %s must not import %s; of others it may import %q", room, path, allowed.theirs)
			}
		}
	}
}

// TestServiceAndLocaldbStandOnTheStandardLibrary looks at everything they
// depend on, where the table above looks at what a room's own files name.
func TestServiceAndLocaldbStandOnTheStandardLibrary(t *testing.T) {
	t.Parallel()
	all := packages(t)
	for room, besides := range map[string]string{"service": "golang.org/x/text", "db/localdb": ""} {
		for _, dep := range all[module+"/"+room].Deps {
			if p := all[dep]; !p.Standard && (besides == "" || p.Module.Path != besides) {
				t.Errorf("room %s must depend on the standard library and %q alone, and depends on %s", room, besides, dep)
			}
		}
	}
}

func TestDbDependsOnTheDriverAndSqlxAlone(t *testing.T) {
	t.Parallel()
	all := packages(t)
	for _, dep := range all[module+"/db"].Deps {
		switch p := all[dep]; p.Module.Path {
		case "", module, "github.com/jmoiron/sqlx", "github.com/go-sql-driver/mysql":
		case "github.com/cespare/xxhash/v2": // where Vitess puts a bucket
		case "filippo.io/edwards25519": // the driver's, for MariaDB's ed25519 accounts
		case "golang.org/x/text": // service's
		default:
			t.Errorf("room db must not depend on %s", dep)
		}
	}
}

// TestOnlyDaemonAndCmdImportDbAndHandlers holds for tests too: one that needs the
// store and the HTTP interface together belongs into cmd. Doctor may import the store alone. The client's tests may
// start the server, because a client has to get on with it, and so may those of an example.
func TestOnlyDaemonAndCmdImportDbAndHandlers(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		room, ok := p.room()
		if !ok || room == "daemon" || strings.HasPrefix(room, "cmd/") {
			continue
		}
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			private := path == module+"/db" && room != "doctor" || path == module+"/handlers"
			served := slices.Contains([]string{"client", "console", "wforce"}, room) && path == module+"/handlers" && !slices.Contains(p.Imports, path)
			if private && !served && path != p.ImportPath { // its own tests may stand outside of it
				t.Errorf("%s must not import %s: only daemon and cmd may", room, path)
			}
		}
	}
}

func TestNothingButHandlersKnowsEcho(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		room, ok := p.room()
		if !ok || strings.HasPrefix(room, "handlers") {
			continue
		}
		imports := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		if room == "client/echolimit" { // its test asks the limiter of Echo itself
			imports = p.Imports
		}
		for _, path := range imports {
			if strings.HasPrefix(path, "github.com/labstack/") {
				t.Errorf("%s must not import %s: Echo stays in handlers", room, path)
			}
		}
	}
}

func TestNothingButTelemetryKnowsPrometheusAndOpenTelemetry(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		room, ok := p.room()
		if !ok || room == "telemetry" {
			continue
		}
		for _, path := range p.Imports {
			if strings.HasPrefix(path, "github.com/prometheus/") || strings.HasPrefix(path, "go.opentelemetry.io/") {
				t.Errorf("%s must not import %s: metrics and traces stay in telemetry", room, path)
			}
		}
	}
}

func TestTheProgramCarriesNoTestCode(t *testing.T) {
	t.Parallel()
	program, ok := packages(t)[module+"/cmd/velocityd"]
	if !ok {
		t.Fatal("there is no cmd/velocityd")
	}
	for _, dep := range program.Deps {
		switch {
		case dep == "testing", strings.HasPrefix(dep, "testing/"), dep == "net/http/httptest",
			strings.HasPrefix(dep, module+"/") && strings.HasSuffix(dep, "test") && !strings.HasSuffix(dep, "/backtest"),
			strings.HasPrefix(dep, "github.com/DATA-DOG/go-sqlmock"):
			t.Errorf("cmd/velocityd must not depend on %s, which is for tests", dep)
		}
	}
}
