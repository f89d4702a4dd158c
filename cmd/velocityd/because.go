package main

import (
	"context"

	"github.com/alecthomas/kong"

	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
)

// becauseFlag is the reason of a change.
type becauseFlag struct {
	Reason string `env:"-" placeholder:"TEXT" help:"The reason, for zone_audit."`
}

// in returns a context in which changes are recorded with the reason. The error is a usage error.
func (f becauseFlag) in(ctx context.Context) (context.Context, error) {
	if f.Reason == "" {
		return ctx, nil
	}
	if err := service.ValidateReason(f.Reason); err != nil {
		return nil, shell.Usagef("--reason: %w", err)
	}
	return service.WithReason(ctx, f.Reason), nil
}

// withReason returns the context of a command's run, which has the reason of the command line, if it has one. The error
// is a usage error.
func withReason(ctx context.Context, command *kong.Context) (context.Context, error) {
	if c, ok := command.Selected().Target.Addr().Interface().(interface {
		in(ctx context.Context) (context.Context, error)
	}); ok {
		return c.in(ctx)
	}
	return ctx, nil
}
