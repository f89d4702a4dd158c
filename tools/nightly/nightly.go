// Package nightly marks the tests of `make test-all`, which take too long for each change. It is for tests only.
package nightly

import (
	"os"
	"testing"
)

// Is says that this run is one of `make test-all`, which sets VELOCITY_TEST_ALL=1.
func Is() bool { return os.Getenv("VELOCITY_TEST_ALL") == "1" }

// Only skips a test in all other runs. A test calls it in its first line, where why is the reason why the test is too
// long for `make test`.
func Only(tb testing.TB, why string) {
	tb.Helper()
	if !Is() {
		tb.Skip("make test-all: " + why)
	}
}
