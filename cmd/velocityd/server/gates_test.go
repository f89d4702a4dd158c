package server

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const gateText = "gates: {login: {buckets: [{zone: 1, key: {client: address}}], deny: 429}}\ndomains: {login: " +
	"[{zone: 7, entries: [{key: user}]}]}"

func TestChangedGatesFileTakesEffectUnlessWrong(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gates.yaml")
	writeFile(t, path, []byte(gateText))
	synctest.Test(t, func(t *testing.T) {
		gates, err := LoadGates(path)
		if err != nil {
			t.Fatal(err)
		}
		told := make(chan bool, 2)
		gates.observe = func(err error) { told <- err == nil }
		ctx, end := context.WithCancel(t.Context())
		log := new(bytes.Buffer)
		go gates.follow(ctx, slog.New(slog.NewJSONHandler(log, nil)))
		for i, step := range []struct {
			change func()
			deny   int // of the gate in force
			ok     []bool
		}{
			{func() {}, 429, nil},
			{func() { writeFile(t, path, []byte(strings.Replace(gateText, "429", "401", 1))) }, 401, []bool{true}},
			{func() { writeFile(t, path, []byte(strings.Replace(gateText, "deny", "deney", 1))) }, 401, []bool{false}},
			{func() {}, 401, nil}, // the same fault is told once
			{func() { _ = os.Remove(path) }, 401, []bool{false}},
			{func() { writeFile(t, path, []byte(gateText)) }, 429, []bool{true}},
		} {
			step.change()
			time.Sleep(2*lookAgain + 1) // of the bubble's time
			synctest.Wait()
			var heard []bool
			for len(told) > 0 {
				heard = append(heard, <-told)
			}
			if g, ok := gates.Gate("login"); !ok || g.Deny != step.deny || !slices.Equal(heard, step.ok) {
				t.Errorf("step %d: %+v %v, told %v, want %d and %v", i, g, ok, heard, step.deny, step.ok)
			}
		}
		if d, ok := gates.Domain("login"); !ok || d[0].Zone != 7 {
			t.Errorf("the domain in force is %v", d)
		}
		end()
		synctest.Wait()
		text := log.String()
		if strings.Count(text, "gates not loaded; those before stay in force") != 2 ||
			strings.Count(text, `"names":"login"`) != 3 ||
			!strings.Contains(text, "no member deney: did you mean deny?") {
			t.Errorf("logged %s", text)
		}
	})
}

func TestGatesFileWritableByOthersIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gates.yaml")
	writeFile(t, path, []byte(gateText))
	if err := os.Chmod(path, 0o666); err != nil { //nolint:gosec // tested
		t.Fatal(err)
	}
	if _, err := LoadGates(path); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("loaded, %v", err)
	}
}
