package main

import (
	"log/slog"
	"strings"
	"testing"
)

func TestLogIsJSONWhereNoTerminalIs(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"auto": `"msg":"hello"`, "json": `"msg":"hello"`, "text": "msg=hello"} {
		stderr := newOutput()
		p := &process{stderr: stderr}
		logger := p.newLogger(serviceFlags{LogFormat: format, LogLevel: slog.LevelWarn})
		logger.Info("unheard")
		logger.Warn("hello")
		if got := stderr.String(); !strings.Contains(got, want) || strings.Contains(got, "unheard") {
			t.Errorf("%s: %s", format, got)
		}
		if (p.logger != nil) != strings.HasPrefix(want, `"`) {
			t.Errorf("%s: the last error goes elsewhere than the log", format)
		}
	}
}
