//go:build doors

// Package doors_test puts real gateways in front of a real velocityd and a small application, with the
// configurations of this folder, which docs/doors shows. `make test-doors` fetches the gateways and runs it. It
// must not know how velocityd decides.
package doors_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"velocityd/tools/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// build builds velocityd once for all tests, into the checkout's folder for what is built.
var build = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // each test would link it anew
	path, err := filepath.Abs("../bin/velocityd-doors")
	if err != nil {
		return "", err
	}
	command := exec.Command("go", "build", "-buildvcs=false", "-o", path, "velocityd/cmd/velocityd")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build velocityd: %w\n%s", err, out)
	}
	return path, nil
})

func velocityd(t *testing.T) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// gateway returns a program that tools/doors.sh has provided. Without it the test is skipped, but not with CI=true.
func gateway(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv("VELOCITY_DOORS"), name)
	_, err := os.Stat(path)
	if os.Getenv("VELOCITY_DOORS") == "" || err != nil {
		text := fmt.Sprintf("there is no %s in VELOCITY_DOORS (%v): `make test-doors` provides it", name, err)
		if os.Getenv("CI") == "true" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	return path
}

// runsAsRoot skips a test of a program that only root can run.
func runsAsRoot(t *testing.T, name string) {
	t.Helper()
	if program := gateway(t, name); os.Geteuid() != 0 {
		t.Skip(program + " runs as root alone")
	}
}
