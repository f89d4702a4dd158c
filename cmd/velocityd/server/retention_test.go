package server

import (
	"testing"
	"time"
)

// TestLockoutEndsAreLookedForOftenEnough holds the five seconds within which its event is promised: a pause between two
// looks leaves a second for the look.
func TestLockoutEndsAreLookedForOftenEnough(t *testing.T) {
	t.Parallel()
	for range 1000 {
		if pause := about(eventPause)(); pause > 4*time.Second {
			t.Fatalf("a pause lasts %s", pause)
		}
	}
}
