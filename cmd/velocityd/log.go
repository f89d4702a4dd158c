package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"velocityd/cmd/velocityd/shell"
)

// logFlags say how a serving command logs.
type logFlags struct {
	LogFormat string   `env:"VELOCITY_LOG_FORMAT" default:"auto" enum:"auto,text,json" placeholder:"FORMAT" help:"Log as text or json; auto means text on a terminal and json elsewhere."`
	LogLevel  logLevel `env:"VELOCITY_LOG_LEVEL" default:"info" enum:"debug,info,warn,error" placeholder:"LEVEL" help:"Log from this level on: debug, info, warn or error."`
}

// newLogger returns the logger of a serving command, which writes to stderr. If the
// format is JSON, the error that the command ends with is logged as well.
func newLogger(p *shell.Process, f logFlags) *slog.Logger {
	options := &slog.HandlerOptions{Level: f.LogLevel, ReplaceAttr: durationAsText}
	logger := slog.New(slog.NewTextHandler(p.Stderr, options))
	if f.LogFormat != "text" && (f.LogFormat != "auto" || !shell.IsTerminal(p.Stderr)) {
		logger = slog.New(slog.NewJSONHandler(p.Stderr, options))
		p.Logger = logger
	}
	if len(p.UnknownVariables) > 0 {
		logger.LogAttrs(context.Background(), slog.LevelWarn, "variables without an effect: no setting has these names",
			slog.Any("variables", p.UnknownVariables))
	}
	return logger
}

// durationAsText writes a duration as text, such as "5s", in every format. slog's
// JSON would have the number of nanoseconds.
func durationAsText(_ []string, attr slog.Attr) slog.Attr {
	if attr.Value.Kind() == slog.KindDuration {
		attr.Value = slog.StringValue(attr.Value.Duration().String())
	}
	return attr
}

// logLevel is a slog.Level that is written as debug, info, warn or error.
type logLevel slog.Level

// Level implements slog.Leveler.
func (l logLevel) Level() slog.Level { return slog.Level(l) }

// String returns the word.
func (l logLevel) String() string { return strings.ToLower(slog.Level(l).String()) }

// UnmarshalText reads the word, in capitals or not.
func (l *logLevel) UnmarshalText(text []byte) error {
	for _, level := range []logLevel{
		logLevel(slog.LevelDebug), logLevel(slog.LevelInfo), logLevel(slog.LevelWarn),
		logLevel(slog.LevelError),
	} {
		if strings.EqualFold(string(text), level.String()) {
			*l = level
			return nil
		}
	}
	return fmt.Errorf("must be debug, info, warn or error; it is %q", text)
}
