package main

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"velocityd/cmd/velocityd/shell"
)

func TestLogIsJSONWhereNoTerminalIs(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"auto": `"msg":"hello"`, "json": `"msg":"hello"`, "text": "msg=hello"} {
		stderr := newOutput()
		p := &shell.Process{Stderr: stderr}
		logger := newLogger(p, logFlags{LogFormat: format, LogLevel: logLevel(slog.LevelWarn)})
		logger.Info("unheard")
		logger.Warn("hello")
		if got := stderr.String(); !strings.Contains(got, want) || strings.Contains(got, "unheard") {
			t.Errorf("%s: %s", format, got)
		}
		if (p.Logger != nil) != strings.HasPrefix(want, `"`) {
			t.Errorf("%s: the last error goes elsewhere than the log", format)
		}
	}
}

func TestDurationsInTheLogAreText(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"json": `"check_timeout":"5s"`, "text": "check_timeout=5s"} {
		stderr := newOutput()
		p := &shell.Process{Stderr: stderr}
		newLogger(p, logFlags{LogFormat: format}).LogAttrs(t.Context(), slog.LevelInfo, "configuration",
			slog.Group("limits", slog.Duration("check_timeout", 5*time.Second)), slog.Duration("check_timeout", 5*time.Second))
		if got := stderr.String(); strings.Count(got, want) != 2 {
			t.Errorf("%s: %s", format, got)
		}
	}
}

func TestLogLevelIsOneOfFourWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]slog.Level{
		"debug": slog.LevelDebug, "INFO": slog.LevelInfo, "Warn": slog.LevelWarn, "error": slog.LevelError,
	} {
		var got logLevel
		if err := got.UnmarshalText([]byte(text)); err != nil || got.Level() != want ||
			got.String() != strings.ToLower(text) {
			t.Errorf("%s: got %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "loud", "warning", "0", "debug+1"} {
		var got logLevel
		if err := got.UnmarshalText([]byte(text)); err == nil ||
			!strings.Contains(err.Error(), "debug, info, warn or error") {
			t.Errorf("%q: got %s, %v", text, got, err)
		}
	}
}
