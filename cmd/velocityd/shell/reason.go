package shell

import (
	"context"

	"github.com/alecthomas/kong"

	"velocityd/service"
)

// ReasonFlag is the reason of a change.
type ReasonFlag struct {
	Reason string `env:"-" placeholder:"TEXT" help:"The reason, for zone_audit."`
}

// Context returns a context in which changes are recorded with the reason. The error is a UsageError.
func (f ReasonFlag) Context(ctx context.Context) (context.Context, error) {
	if f.Reason == "" {
		return ctx, nil
	}
	if err := service.ValidateReason(f.Reason); err != nil {
		return nil, Usagef("--reason: %w", err)
	}
	return service.WithReason(ctx, f.Reason), nil
}

// WithReason returns the context of a command's run, which has the reason of the command line, if it has one. The error
// is a UsageError.
func WithReason(ctx context.Context, command *kong.Context) (context.Context, error) {
	if c, ok := command.Selected().Target.Addr().Interface().(interface {
		Context(ctx context.Context) (context.Context, error)
	}); ok {
		return c.Context(ctx)
	}
	return ctx, nil
}
