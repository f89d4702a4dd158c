//go:build packages

// Package containers_test runs the contents of the image, the compose file and the chart, without a container engine:
// the image is unpacked and entered by chroot, as its user, read-only, in a network with nothing else in it. The
// database is a real one. It must not know how they are built: `make test-containers` builds them.
package containers_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"velocityd/tools/enginetest"
)

// inside is set in the network of the tests.
const inside = "VELOCITY_TEST_NETWORK"

func TestMain(m *testing.M) {
	if os.Geteuid() == 0 && os.Getenv(inside) == "" {
		enterNetwork()
	}
	enginetest.Main(m)
}

// enterNetwork begins this program again in a network that has a loopback and nothing else, so that the ports of the
// files under test are free, and mounts are gone with the tests. It returns if that cannot be had.
func enterNetwork() {
	const enter = `ip link set lo up && exec "$@"`
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return
	}
	args := append([]string{"unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", enter, "sh"},
		os.Args...)
	_ = syscall.Exec(unshare, args, append(os.Environ(), inside+"=1"))
}

// built returns the one file whose name matches, of those that `make test-containers` has built.
func built(t *testing.T, name string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("../../bin/containers", name))
	if err != nil || len(found) != 1 {
		t.Fatalf("bin/containers has %q for %s (%v): run make test-containers", found, name, err)
	}
	return found[0]
}

// ports is held by the one test whose containers use the ports of the files under test.
var ports sync.Mutex //nolint:gochecknoglobals // there is one network

// alone skips the test where containers cannot be entered, and otherwise waits until the ports are free.
func alone(t *testing.T) {
	t.Helper()
	if os.Getenv(inside) == "" {
		const lack = "needs root, and the programs unshare, ip, mount and chroot"
		if os.Getenv("CI") == "true" {
			t.Fatal(lack)
		}
		t.Skip(lack)
	}
	ports.Lock()
	t.Cleanup(ports.Unlock)
}
