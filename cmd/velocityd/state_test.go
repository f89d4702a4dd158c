package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAStateFolderThatIsAFileOrAnybodysEndsServeAtOnce(t *testing.T) {
	t.Parallel()
	taken := filepath.Join(t.TempDir(), "file")
	err := os.WriteFile(taken, nil, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	r := command(environment{"VELOCITY_DSN": "u@tcp(127.0.0.1:1)/d"}, nil, "serve", "--listen", "127.0.0.1:0", "--state-dir", taken)
	if r.code != exitError || !strings.Contains(r.stderr, "--state-dir") {
		t.Errorf("got %+v", r)
	}
	shared := t.TempDir()
	if err = os.Chmod(shared, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	r = command(environment{"VELOCITY_DSN": "u@tcp(127.0.0.1:1)/d"}, nil, "serve", "--listen", "127.0.0.1:0", "--state-dir", shared)
	if r.code != exitError || !strings.Contains(r.stderr, "--state-dir") || !strings.Contains(r.stderr, "chmod go-w") {
		t.Errorf("a folder for everybody: %+v", r)
	}
}

func TestDegradedAfterMustBeBelowTheDeadline(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, -time.Second, time.Microsecond, 5 * time.Second, time.Minute} {
		r := command(environment{"VELOCITY_DSN": "u@tcp(127.0.0.1:1)/d"}, nil, "serve", "--degraded-after", after.String())
		if r.code != exitUsage || !strings.Contains(r.stderr, "--degraded-after") {
			t.Errorf("%s: %+v", after, r)
		}
	}
}
