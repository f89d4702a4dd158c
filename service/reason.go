package service

import "context"

// reasonKey is the key of a context's reason.
type reasonKey struct{}

// WithReason returns a context in which changes of zones, overrides and credentials are recorded with a reason, which
// must be one by ValidateReason.
func WithReason(ctx context.Context, reason string) context.Context {
	return context.WithValue(ctx, reasonKey{}, reason)
}

// StatedReason returns the reason of the changes that are made in a context, or the empty text.
func StatedReason(ctx context.Context) string {
	reason, _ := ctx.Value(reasonKey{}).(string)
	return reason
}
