package main

import (
	"log/slog"
	"os"

	"github.com/mattn/go-isatty"
)

// newLogger returns the log of a serving command on stderr. When it is JSON, the
// error that the command ends in goes there as well.
func (p *process) newLogger(f serviceFlags) *slog.Logger {
	options := &slog.HandlerOptions{Level: f.LogLevel}
	if f.LogFormat == "text" || f.LogFormat == "auto" && isTerminal(p.stderr) {
		return slog.New(slog.NewTextHandler(p.stderr, options))
	}
	p.logger = slog.New(slog.NewJSONHandler(p.stderr, options))
	return p.logger
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && (isatty.IsTerminal(file.Fd()) || isatty.IsCygwinTerminal(file.Fd()))
}
