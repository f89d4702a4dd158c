package client_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"velocityd/tools/nightly"
)

// TestClientModuleNeedsNothingButText makes the module that other programs require, and builds and tests it apart.
func TestClientModuleNeedsNothingButText(t *testing.T) {
	nightly.Only(t, "compiles the client as a module apart")
	t.Parallel()
	module := filepath.Join(t.TempDir(), "module")
	run := func(dir, name string, args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), name, args...)
		command.Dir = dir
		command.Env = append(command.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off", "CGO_ENABLED=0")
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	run("..", "tools/client-module.sh", module)
	run(module, "go", "vet", "./...")
	run(module, "go", "test", "./client/fake")
	for line := range strings.Lines(
		run(module, "go", "list", "-deps", "-f", "{{if .Module}}{{.Module.Path}}{{end}}", "./...")) {
		if path := strings.TrimSpace(line); path != "" && path != "golang.org/x/text" &&
			path != "velocityd.example/velocityd" {
			t.Errorf("the client needs %s", path)
		}
	}
}
