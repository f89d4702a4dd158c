package main

import (
	"os"
	"strings"
	"testing"
)

func TestUnfitStateFolderEndsServeAtOnce(t *testing.T) {
	t.Parallel()
	taken := fileOf(t, "file", "")
	r := command(environment{"VELOCITY_DSN": "u@tcp(127.0.0.1:1)/d"}, nil, "serve", "--listen", "127.0.0.1:0",
		"--state-dir", taken)
	if r.code != exitError || !strings.Contains(r.stderr, "--state-dir") {
		t.Errorf("got %+v", r)
	}
	shared := t.TempDir()
	if err := os.Chmod(shared, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	r = command(environment{"VELOCITY_DSN": "u@tcp(127.0.0.1:1)/d"}, nil, "serve", "--listen", "127.0.0.1:0",
		"--state-dir", shared)
	if r.code != exitError || !strings.Contains(r.stderr, "--state-dir") || !strings.Contains(r.stderr, "chmod go-w") {
		t.Errorf("a folder for all users: %+v", r)
	}
}
