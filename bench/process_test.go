package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestProcessorTimeIsReadBehindAnyName(t *testing.T) {
	t.Parallel()
	const line = "42 (a) b (c)) S 1 42 42 0 -1 4194304 9 9 0 0 123 77 5 5 20 0 3 0 100 1000 10"
	if got, err := parseStat(line); got != 2*time.Second || err != nil {
		t.Errorf("got %v, %v, want 2s", got, err)
	}
	for _, broken := range []string{
		"", "42 (a) S 1 2", "42 (a) S 1 42 42 0 -1 4194304 9 9 0 0 x 77",
		"42 (a) S 1 42 42 0 -1 4194304 9 9 0 0 1 x",
	} {
		if got, err := parseStat(broken); err == nil {
			t.Errorf("%q: %v", broken, got)
		}
	}
}

func TestAChildIsStoppedAndHeard(t *testing.T) {
	t.Parallel()
	c, err := startChild(t.Context(), t.TempDir(), "one", []string{"WORDS=last words"}, "/bin/sh", "-c",
		`echo "$WORDS"; exec sleep 600`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cpuOf(c.pid()); err != nil {
		t.Error(err)
	}
	none := filepath.Join(t.TempDir(), "none")
	for range 200 { // a minute at most, in which it comes to speak
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := c.awaitPort(ctx, "unix", none)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("waiting for a port that never comes: %v", err)
		}
		if c.lastWords() != "" {
			break
		}
	}
	c.stop()
	if _, err := cpuOf(c.pid()); err == nil {
		t.Error("the process is still there")
	}
	if got := c.lastWords(); got != "last words" {
		t.Errorf("it said %q", got)
	}
	c.stop() // again, which does nothing
}

func TestAChildThatEndsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	c, err := startChild(t.Context(), t.TempDir(), "one", nil, "/bin/sh", "-c", "echo no such option; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	err = c.awaitPort(t.Context(), "unix", filepath.Join(t.TempDir(), "none"))
	if err == nil || !strings.Contains(err.Error(), "no such option") {
		t.Errorf("got %v", err)
	}
}

func TestAChildEndsWithTheRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c, err := startChild(ctx, t.TempDir(), "one", nil, "/bin/sleep", "60")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case <-c.done:
	case <-time.After(20 * time.Second):
		c.stop()
		t.Error("the child outlives the run")
	}
}

func TestHungProgramIsKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "alive")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// Its own child would hold the pipe open.
	began := time.Now()
	_, err := output(t.Context(), 200*time.Millisecond,
		exec.CommandContext(t.Context(), "/bin/sh", "-c", "sleep 60 & sleep 60"))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestAProgramsComplaintIsInTheError(t *testing.T) {
	t.Parallel()
	out, err := output(t.Context(), time.Minute,
		exec.CommandContext(t.Context(), "/bin/sh", "-c", "echo out; echo wrong >&2; exit 2"))
	if err == nil || !strings.Contains(err.Error(), "wrong") || out != nil {
		t.Errorf("got %q, %v", out, err)
	}
}
