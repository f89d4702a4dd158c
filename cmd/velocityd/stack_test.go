package main

import (
	"net/http"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

// TestLoneWaitingCheckStandsOnFewFrames counts the functions of this module between net/http and the driver, which
// docs/architecture.md walks.
func TestLoneWaitingCheckStandsOnFewFrames(t *testing.T) {
	t.Parallel()
	const most = 24
	engine := enginetest.First(t)
	d := engine.Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	i := start(t, environment{"VELOCITY_DSN": d.DSN}, append([]string{"serve"}, slow...)...)
	mustAsk(t, i.url+"/v1/check", alice, http.StatusOK)
	release := d.Hold(t, service.Bucket{ZoneID: 1, Key: "alice"})
	defer release()
	answered := make(chan reply, 1)
	go func() {
		r, _ := request(i.url+"/v1/check", alice)
		answered <- r
	}()
	var stacks [][]string
	enginetest.Eventually(t, "the check waits in the engine", func() bool {
		stacks = stacksOfWaitingChecks(t)
		return len(stacks) > 0
	})
	for _, stack := range stacks {
		if len(stack) > most {
			t.Errorf("%d frames, want at most %d:\n%s", len(stack), most, strings.Join(stack, "\n"))
		}
	}
	t.Logf("%d frames:\n%s", len(stacks[0]), strings.Join(stacks[0], "\n"))
	release()
	if r := <-answered; r.status != http.StatusOK {
		t.Errorf("then the check was answered with %+v", r)
	}
}

// stacksOfWaitingChecks returns the frames of this module of each goroutine of net/http that waits for the procedure of
// lone checks.
func stacksOfWaitingChecks(t *testing.T) (stacks [][]string) {
	t.Helper()
	var text strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&text, 2); err != nil {
		t.Fatal(err)
	}
	for goroutine := range strings.SplitSeq(text.String(), "\n\n") {
		if !strings.Contains(goroutine, "net/http.(*conn).serve(") || !strings.Contains(goroutine, ".decideAlone(") {
			continue
		}
		var frames []string
		for line := range strings.Lines(goroutine) {
			if strings.HasPrefix(line, "velocityd/") {
				name, _, _ := strings.Cut(strings.TrimSpace(line), "({")
				frames = append(frames, name)
			}
		}
		stacks = append(stacks, frames)
	}
	return stacks
}
