package main

import (
	"context"

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
