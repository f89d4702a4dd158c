package server

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"velocityd/handlers/gate"
	"velocityd/internal/files"
)

// GateFile is the file of the named gates and of the domains, and those that were read from it last.
type GateFile struct {
	path    string
	current atomic.Pointer[gate.File]
	tried   noted[[sha256.Size]byte] // the sum of the text that was read last, or of the error
	// observe is called after each attempt to read a file that has changed. It may be nil.
	observe func(err error)
}

// LoadGates reads a file of gates and puts them in force. The error names the file.
func LoadGates(path string) (*GateFile, error) {
	f := &GateFile{path: path}
	_, err := f.reread()
	return f, err
}

// Gate returns a gate that is in force.
func (f *GateFile) Gate(name string) (gate.Gate, bool) { return f.current.Load().Gate(name) }

// Domain returns a domain of Envoy's Rate Limit Service that is in force.
func (f *GateFile) Domain(name string) (gate.Domain, bool) { return f.current.Load().Domain(name) }

// reread reads the file and puts its gates in force, if the text is another one than before. On an error, the gates
// before stay in force.
func (f *GateFile) reread() (isNew bool, err error) {
	text, err := files.Read(f.path, files.LongLimit)
	if !f.tried.changes(sha256.Sum256(fmt.Appendf(nil, "%q %v", text, err))) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	file, err := gate.Parse(text)
	if err != nil {
		return true, fmt.Errorf("%s: %w", f.path, err)
	}
	f.current.Store(&file)
	return true, nil
}

// follow reads the file again every few seconds, until ctx ends. It logs the gates that come in force, and errors,
// those of an unchanged file once.
func (f *GateFile) follow(ctx context.Context, logger *slog.Logger) {
	f.logInForce(ctx, logger)
	poll[any](ctx, every(lookAgain), nil, func(bool) {
		isNew, err := f.reread()
		switch {
		case !isNew:
			return
		case err != nil:
			logger.LogAttrs(ctx, slog.LevelError, "gates not loaded; those before stay in force",
				slog.String("error", err.Error()))
		default:
			f.logInForce(ctx, logger)
		}
		if f.observe != nil {
			f.observe(err)
		}
	})
}

// logInForce logs which gates are in force.
func (f *GateFile) logInForce(ctx context.Context, logger *slog.Logger) {
	logger.LogAttrs(ctx, slog.LevelInfo, "gates loaded", slog.String("file", f.path),
		slog.String("names", strings.Join(f.current.Load().Names(), " ")), slog.Int("domains", len(f.current.Load().Domains)))
}
