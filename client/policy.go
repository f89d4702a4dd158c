package client

import (
	"context"
	"errors"

	"velocityd/service"
)

// OnError decides whether an attempt may go ahead that the service has not decided. err is the reason.
// It is called on the caller's goroutine.
type OnError func(ctx context.Context, check service.Check, err error) (allowed bool)

// Allow is the OnError that fails open: the attempt goes ahead without a limit.
func Allow(context.Context, service.Check, error) bool { return true }

// Deny is the OnError that fails closed: the attempt is blocked.
func Deny(context.Context, service.Check, error) bool { return false }

// WithOnError makes Check answer by policy after an error, with a Decision that is Degraded, and no error.
// Nothing says whether such an attempt was recorded, so it has no txn to report. Without a policy Check
// returns the error.
//
// A policy is NOT asked after a caller has left, and after errors that wrap service.ErrInvalid or
// service.ErrConflict: they come from the check itself, so a user that can cause one, by a name that no
// account has, would pass without a limit. CheckAll has no policy.
func WithOnError(policy OnError) Option {
	return func(c *Client) { c.onError = policy }
}

// decideWithout returns the answer to a check that has ended in err.
func (c *Client) decideWithout(ctx context.Context, check service.Check, err error) (service.Decision, error) {
	isOwn := errors.Is(err, service.ErrInvalid) || errors.Is(err, service.ErrConflict) ||
		errors.Is(ctx.Err(), context.Canceled)
	if c.onError == nil || isOwn {
		return service.Decision{}, err
	}
	blocked := !c.onError(ctx, check, err)
	d := service.Decision{
		Blocked: blocked, WouldBlock: blocked, Degraded: true,
		Verdicts: make([]service.Verdict, len(check.Buckets)),
	}
	for i, b := range check.Buckets {
		d.Verdicts[i] = service.Verdict{Bucket: b, Blocked: blocked, WouldBlock: blocked}
		if blocked {
			d.Verdicts[i].RetryAfter.Duration = service.BusyRetryAfter
		}
	}
	return d, nil
}
