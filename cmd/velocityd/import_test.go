package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnImportMakesTwoFilesAndOverwritesNone(t *testing.T) {
	t.Parallel()
	config := fileOf(t, "ratelimit.yaml",
		"domain: d\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1, replaces: [{name: x}]}\n")
	args := func(dir string, more ...string) []string {
		return append([]string{"import", "ratelimit", config, "--first-zone", "4", "--out", dir}, more...)
	}
	dir := t.TempDir()
	r := command(nil, nil, args(dir)...)
	if r.code != exitSuccess || r.stdout != "zones.yaml: 1 zone, 4 to 4\ngates.yaml: 1 rule of 1 domain\n" ||
		!strings.Contains(r.stderr, "ratelimit.yaml:4: replaces has no counterpart") {
		t.Errorf("%+v", r)
	}
	if r := command(nil, nil, "gate", "lint", filepath.Join(dir, "gates.yaml")); r.code != exitSuccess {
		t.Errorf("the rules: %+v", r)
	}
	if r := command(nil, nil, args(t.TempDir(), "--strict")...); r.code != exitFindings {
		t.Errorf("--strict: %+v", r)
	}
	for _, there := range []string{"zones.yaml", "gates.yaml"} {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, there), "mine")
		r := command(nil, nil, args(dir)...)
		text, err := os.ReadFile(filepath.Join(dir, there))
		files, _ := os.ReadDir(dir)
		if r.code != exitError || !strings.Contains(r.stderr, there+" is there already") || string(text) != "mine" ||
			err != nil || len(files) != 1 {
			t.Errorf("%s: %+v, %q, %v", there, r, text, files)
		}
	}
	if r := command(nil, nil, "import", "ratelimit", fileOf(t, "ratelimit.yaml", "domain: d\ndescriptors: {}"), "--out",
		t.TempDir()); r.code != exitError ||
		!strings.Contains(r.stderr, "ratelimit.yaml:2: this must be a list") {
		t.Errorf("a fault: %+v", r)
	}
	if r := command(nil, nil, "import", "ratelimit", "/nowhere"); r.code != exitUsage {
		t.Errorf("no file: %+v", r)
	}
}
