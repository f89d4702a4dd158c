package enginetest

import "testing"

// AtEnd calls do at the end of a test, as Cleanup does. Package testing keeps the functions of Cleanup, with all that
// they hold, until the last test of the package has ended: stores, pools and logs of thousands of tests. AtEnd lets go
// of do.
func AtEnd(tb testing.TB, do func()) {
	tb.Helper()
	tb.Cleanup(func() {
		once := do
		do = nil
		once()
	})
}
